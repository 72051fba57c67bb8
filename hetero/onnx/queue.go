//go:build npu

package onnx

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmrun/llmrun/hetero"
)

// maxPending is how many products may wait. It is more than a plan ever has under
// way.
const maxPending = 1024

// queue does the work of a device in the order of its submission, on a thread of
// its own: the library returns when a product is complete.
type queue struct {
	run         func(submission) error
	submissions chan submission
	tickets     [maxPending]ticket
	next        int // ticket; of the one goroutine that submits
	ended       chan struct{}

	mu     sync.Mutex // for those who wait instead of looking
	signal sync.Cond
	// failed is the first error. What comes after it would see results that were
	// never written, so nothing more is done.
	failed atomic.Pointer[error]
}

// ticket is work in the queue. It can be looked at until maxPending more were
// submitted: later it stands for one of those.
type ticket struct {
	queue *queue
	state atomic.Uint32
	err   error

	begun, ended time.Duration // by the machine's clock
}

// States of a ticket.
const (
	idle uint32 = iota
	pending
	complete
)

func newQueue(do func(submission) error) *queue {
	q := &queue{run: do, submissions: make(chan submission, maxPending), ended: make(chan struct{})}
	q.signal.L = &q.mu
	for i := range q.tickets {
		q.tickets[i].queue = q
	}
	go q.serve()
	return q
}

// submit puts work at the end of the queue.
func (q *queue) submit(j submission) (*ticket, error) {
	if err := q.failed.Load(); err != nil {
		return nil, *err
	}
	t := &q.tickets[q.next]
	if t.state.Load() == pending {
		return nil, fmt.Errorf("onnx: %d products are waiting already", maxPending)
	}
	q.next = (q.next + 1) % maxPending
	t.err = nil
	t.state.Store(pending)
	j.ticket = t
	q.submissions <- j // has room: it holds no more than there are tickets
	return t, nil
}

// serve does the work until the queue is closed.
func (q *queue) serve() {
	defer close(q.ended)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for j := range q.submissions {
		j.ticket.begun = hetero.Wall().Now()
		if q.failed.Load() == nil {
			if err := q.run(j); err != nil {
				q.fail(err)
			}
		}
		if err := q.failed.Load(); err != nil {
			j.ticket.err = *err
		}
		j.ticket.ended = hetero.Wall().Now()
		q.mu.Lock()
		j.ticket.state.Store(complete)
		q.mu.Unlock()
		q.signal.Broadcast()
	}
}

// fail notes the first error.
func (q *queue) fail(err error) { q.failed.Store(&err) }

// drain waits until all work that was submitted is complete.
func (q *queue) drain() {
	for i := range q.tickets {
		q.tickets[i].wait()
	}
}

// close ends the queue after its work, and returns the first error of it.
func (q *queue) close() error {
	close(q.submissions)
	<-q.ended
	if err := q.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Done is one load.
func (t *ticket) Done() bool { return t.state.Load() == complete }

// Ran is for work that is complete.
func (t *ticket) Ran() (begin, end time.Duration) { return t.begun, t.ended }

// Wait sleeps until the queue's thread says that the work is complete.
func (t *ticket) Wait() error {
	t.wait()
	return t.err
}

func (t *ticket) wait() {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	for t.state.Load() == pending {
		t.queue.signal.Wait()
	}
}
