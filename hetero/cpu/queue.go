package cpu

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmrun/llmrun/hetero"
)

const (
	// queueLength is the number of matmuls that may wait; a further Submit blocks.
	queueLength = 64
	// pollFor is the time for which the device polls its queue before it sleeps:
	// waking up takes longer than a short matmul.
	pollFor = 50 * time.Microsecond
)

// ticket is a queued matmul.
type ticket struct {
	kernel *kernel
	tokens int
	x, y   hetero.View
	done   atomic.Bool

	begun, ended time.Duration // by the machine's clock
}

// Done costs one load.
func (t *ticket) Done() bool { return t.done.Load() }

// Ran is valid for completed work.
func (t *ticket) Ran() (begin, end time.Duration) { return t.begun, t.ended }

// Wait sleeps until the matmul is done.
func (t *ticket) Wait() error {
	d := t.kernel.device
	d.mu.Lock()
	defer d.mu.Unlock()
	for !t.done.Load() {
		d.ended.Wait()
	}
	return nil
}

// submit queues a matmul. It does not allocate: the ring of tickets is twice as
// long as the queue, so a ticket is reused only long after its work.
func (d *Device) submit(k *kernel, tokens int, x, y hetero.View) (hetero.Ticket, error) {
	d.mu.Lock()
	if err := d.validate(k, tokens, x, y); err != nil {
		d.mu.Unlock()
		return nil, err
	}
	d.pending++
	t := &d.tickets[d.issued%len(d.tickets)]
	d.issued++
	d.mu.Unlock()
	t.kernel, t.tokens, t.x, t.y = k, tokens, x, y
	t.done.Store(false)
	d.queue <- t
	return t, nil
}

// validate rejects views outside their buffers.
func (d *Device) validate(k *kernel, tokens int, x, y hetero.View) error {
	switch {
	case k.closed:
		return errKernelClosed
	case !d.buffers[x.Buffer] || !d.buffers[y.Buffer]:
		return fmt.Errorf("%s: buffer is not attached", d.caps.Name)
	case tokens < 1 || tokens > k.op.Tokens:
		return fmt.Errorf("%s: %d tokens, but the kernel is prepared for %d", d.caps.Name, tokens, k.op.Tokens)
	case !x.Fits(tokens, k.op.Cols) || !y.Fits(tokens, k.op.Rows):
		return fmt.Errorf("%s: operands of a %d × %d × %d matmul exceed their buffers", d.caps.Name, tokens, k.op.Rows, k.op.Cols)
	}
	return nil
}

// serve runs queued matmuls until the device is closed.
func (d *Device) serve(cores []int, bound chan<- error) {
	defer close(d.exited)
	bound <- d.bind(cores)
	for t := d.next(); t != nil; t = d.next() {
		t.begun = hetero.Wall().Now()
		for range d.slowdown {
			d.matmul.run(t)
		}
		t.ended = hetero.Wall().Now()
		d.mu.Lock()
		t.done.Store(true)
		d.pending--
		d.mu.Unlock()
		d.ended.Broadcast()
	}
}

// next returns the next matmul, nil when the device is closed.
func (d *Device) next() *ticket {
	for begin := time.Now(); time.Since(begin) < pollFor; runtime.Gosched() {
		select {
		case t := <-d.queue:
			return t
		default:
		}
	}
	return <-d.queue
}

// waitIdle waits until all work is done. The caller holds the lock.
func (d *Device) waitIdle() {
	for d.pending > 0 {
		d.ended.Wait()
	}
}

// bind pins every worker's thread to one of the cores. The goroutine that runs serve
// calls it, because that goroutine is a worker too.
func (d *Device) bind(cores []int) error {
	if len(cores) == 0 {
		return nil
	}
	n := d.workers.Count()
	errs := make([]error, n)
	var all sync.WaitGroup // blocks every worker until each has one part
	all.Add(n)
	d.workers.Run(n, func(part, worker int) {
		runtime.LockOSThread()
		errs[part] = bindThread(cores[worker%len(cores)])
		all.Done()
		all.Wait()
	})
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("cpu: cannot pin a thread to one of the CPUs %v: %w", cores, err)
		}
	}
	return nil
}
