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

// maxPending is the queue's capacity, more than any plan has in flight.
const maxPending = 1024

// queue runs submitted matmuls in order on its own thread, because the library's
// calls block.
type queue struct {
	run         func(submission) error
	submissions chan submission
	tickets     [maxPending]ticket
	next        int // next ticket; used by the submitting goroutine only
	ended       chan struct{}

	mu     sync.Mutex // for waiters that sleep
	signal sync.Cond
	// failed is the first error. Later matmuls would read results that were never
	// written, so they do not run.
	failed atomic.Pointer[error]
}

// ticket is queued work. The queue reuses it after maxPending further submissions.
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

// submit appends work to the queue.
func (q *queue) submit(j submission) (*ticket, error) {
	if err := q.failed.Load(); err != nil {
		return nil, *err
	}
	t := &q.tickets[q.next]
	if t.state.Load() == pending {
		return nil, fmt.Errorf("onnx: the queue is full (%d matmuls)", maxPending)
	}
	q.next = (q.next + 1) % maxPending
	t.err = nil
	t.state.Store(pending)
	j.ticket = t
	q.submissions <- j // does not block: the channel has room for all tickets
	return t, nil
}

// serve runs the work until the queue is closed.
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

// fail stores the first error.
func (q *queue) fail(err error) { q.failed.Store(&err) }

// drain waits until all submitted work is complete.
func (q *queue) drain() {
	for i := range q.tickets {
		q.tickets[i].wait()
	}
}

// close stops the queue after its work and returns the first error.
func (q *queue) close() error {
	close(q.submissions)
	<-q.ended
	if err := q.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Done costs one load.
func (t *ticket) Done() bool { return t.state.Load() == complete }

// Ran is valid for completed work.
func (t *ticket) Ran() (begin, end time.Duration) { return t.begun, t.ended }

// Wait sleeps until the work is complete.
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
