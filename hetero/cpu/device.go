package cpu

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// Options say which part of the processor a device is.
type Options struct {
	Threads int // 0 = one for each of Cores, or for each fast core
	// Cores are the processors that the threads are bound to, in turns, where the
	// system can do that; without any, threads run where the system puts them.
	Cores []int
	// Slow makes the device so many times slower: it does every product that often.
	// With it, one of two equal groups stands for the small cores of a phone. 0 = 1.
	Slow int
	// Budget is charged with weights and working memory; nil = nobody counts.
	Budget *tiering.Budget
}

// ErrClosed is the error of a use after Close.
var ErrClosed = errors.New("cpu: the device is closed")

// Device is the processor, or a group of its cores.
type Device struct {
	caps     hetero.Capabilities
	slowdown int
	budget   *tiering.Budget
	workers  *threadpool.Pool
	queue    chan *ticket
	exited   chan struct{}
	seed     maphash.Seed // of sums of weights

	mu      sync.Mutex
	closed  bool
	pending int // submitted and not done
	tickets [2 * queueLength]ticket
	issued  int       // of the tickets, so far
	ended   sync.Cond // of mu: a ticket is done
	kernels int
	weights map[weightsKey]*weights
	buffers map[*hetero.Buffer]bool

	// Of the goroutine that does the work. Prepare makes them larger, while there
	// is no work.
	activations *tiering.Frame // of rounded activations
	acts        tiled.Activations
	matmul      matmul
}

// New starts a device.
func New(o Options) (*Device, error) {
	if o.Threads < 0 || o.Slow < 0 {
		return nil, fmt.Errorf("cpu: %d threads, %d times slower", o.Threads, o.Slow)
	}
	threads := o.threads()
	d := &Device{
		caps: o.Capabilities(), slowdown: max(1, o.Slow), budget: o.Budget,
		workers: threadpool.New(threads),
		queue:   make(chan *ticket, queueLength), exited: make(chan struct{}), seed: maphash.MakeSeed(),
		weights: map[weightsKey]*weights{}, buffers: map[*hetero.Buffer]bool{},
	}
	if d.budget == nil {
		d.budget = tiering.New(0)
	}
	d.ended.L = &d.mu
	d.matmul.start(d, threads)
	bound := make(chan error)
	go d.serve(o.Cores, bound)
	if err := <-bound; err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (o Options) threads() int {
	return cmp.Or(o.Threads, len(o.Cores), threadpool.DefaultThreads())
}

// Capabilities are those of the device that New would start.
func (o Options) Capabilities() hetero.Capabilities {
	return hetero.Capabilities{Name: o.name(), Kind: hetero.CPU, SharesMemory: true, FixedScale: true}
}

// name tells devices apart whose products take different times.
func (o Options) name() string {
	threads := o.threads()
	text := fmt.Sprintf("CPU, %s kernels", quant.Features())
	if quant.Tiles() {
		text += " and tiles"
	}
	text += fmt.Sprintf(", %d threads", threads)
	if threads == 1 {
		text = text[:len(text)-1]
	}
	if len(o.Cores) > 0 {
		text += fmt.Sprintf(" on processors %v", o.Cores)
	}
	if o.Slow > 1 {
		text += fmt.Sprintf(", made %d times slower", o.Slow)
	}
	return text
}

// Capabilities says what the device can do.
func (d *Device) Capabilities() hetero.Capabilities { return d.caps }

// Clock is that of the machine.
func (d *Device) Clock() hetero.Clock { return hetero.Wall() }

// Attach notes the buffer, which is ordinary memory.
func (d *Device) Attach(b *hetero.Buffer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	d.buffers[b] = true
	return nil
}

// Flush has nothing to do: the processor sees what is in memory.
func (d *Device) Flush(*hetero.Buffer) error { return nil }

// FlushRows has nothing to do, and
func (d *Device) FlushRows(hetero.View, int, int) error { return nil }

// Fetch has nothing to do either.
func (d *Device) Fetch(*hetero.Buffer) error { return nil }

// Close ends the device. It fails while kernels are open.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.kernels > 0 {
		defer d.mu.Unlock()
		return fmt.Errorf("cpu: the device is closed with %d kernels", d.kernels)
	}
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	close(d.queue)
	d.mu.Unlock()
	<-d.exited
	d.workers.Close()
	if d.activations != nil {
		d.activations.Free()
	}
	return nil
}
