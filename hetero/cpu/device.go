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

// Options select the part of the CPU that a device uses.
type Options struct {
	Threads int // 0 = one per entry of Cores, or per fast core
	// Cores are the CPUs that the threads are pinned to, round-robin, where the
	// system supports pinning. Without Cores, the system places the threads.
	Cores []int
	// Slow is the number of times that the device runs every matmul, to slow it down.
	// One of two equal groups of cores can thus simulate the small cores of a phone.
	// 0 = 1.
	Slow int
	// Budget is charged for weights and working memory; nil: no accounting.
	Budget *tiering.Budget
}

// ErrClosed reports the use of a closed device.
var ErrClosed = errors.New("cpu: the device is closed")

// Device is the CPU, or a group of its cores.
type Device struct {
	caps     hetero.Capabilities
	slowdown int
	budget   *tiering.Budget
	workers  *threadpool.Pool
	queue    chan *ticket
	exited   chan struct{}
	seed     maphash.Seed // of weightsKey.hash

	mu      sync.Mutex
	closed  bool
	pending int // submitted and not done
	tickets [2 * queueLength]ticket
	issued  int       // tickets issued so far
	ended   sync.Cond // a ticket is done; locked by mu
	kernels int
	weights map[weightsKey]*weights
	buffers map[*hetero.Buffer]bool

	// Only the goroutine that runs the matmuls uses these fields. Prepare enlarges
	// them while the queue is empty.
	activations *tiering.Frame // memory of quantized activations
	acts        tiled.Activations
	matmul      matmul
}

// New starts a device.
func New(o Options) (*Device, error) {
	if o.Threads < 0 || o.Slow < 0 {
		return nil, fmt.Errorf("cpu: invalid options: %d threads, slowdown %d", o.Threads, o.Slow)
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

// Capabilities returns those of the device that New would start.
func (o Options) Capabilities() hetero.Capabilities {
	return hetero.Capabilities{Name: o.name(), Kind: hetero.CPU, SharesMemory: true, FixedScale: true}
}

// name describes the device; devices of different speed have different names.
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

// Capabilities describes the device.
func (d *Device) Capabilities() hetero.Capabilities { return d.caps }

// Clock returns the machine's clock.
func (d *Device) Clock() hetero.Clock { return hetero.Wall() }

// Attach registers the buffer, which is ordinary memory.
func (d *Device) Attach(b *hetero.Buffer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	d.buffers[b] = true
	return nil
}

// Flush does nothing: the CPU reads memory directly.
func (d *Device) Flush(*hetero.Buffer) error { return nil }

// FlushRows does nothing.
func (d *Device) FlushRows(hetero.View, int, int) error { return nil }

// Fetch does nothing.
func (d *Device) Fetch(*hetero.Buffer) error { return nil }

// Close stops the device. It fails while kernels are open.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.kernels > 0 {
		defer d.mu.Unlock()
		return fmt.Errorf("cpu: cannot close the device: %d kernels are open", d.kernels)
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
