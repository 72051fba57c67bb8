package serve

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Reasons why the queue does not admit a request.
var (
	errBusy   = errors.New("the server is busy: its queue is full")
	errYours  = errors.New("too many of your requests are waiting")
	errClosed = errors.New("the server is shutting down")
)

// queue bounds the requests that are in the server, and lets clients take turns: the next request that starts is the
// oldest one of the client whose last start is longest ago; of several new clients, the one that came first.
type queue struct {
	parallel int // requests that generate at the same time
	waiting  int // requests that wait, of all clients
	each     int // requests that wait, of one client

	mu      sync.Mutex
	closed  bool
	inside  int // admitted requests that have not ended
	running int
	clients map[string]*client
	turn    uint64        // counts starts
	order   uint64        // counts admissions
	took    time.Duration // mean time that a request runs; 0 = unknown
}

// client holds the admitted requests of a client.
type client struct {
	inside int
	last   uint64    // turn of its last start
	ready  []*ticket // requests that wait for their turn, the oldest first
}

// ticket is an admitted request.
type ticket struct {
	queue   *queue
	client  string
	order   uint64
	turn    chan struct{} // closed when the request may start
	started time.Time     // zero before
}

func newQueue(parallel, waiting int) *queue {
	return &queue{parallel: parallel, waiting: waiting, each: max(1, waiting/2), clients: map[string]*client{}}
}

// admit returns a ticket, or why there is no room. The caller calls done.
func (q *queue) admit(name string) (*ticket, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.clients[name]
	switch {
	case q.closed:
		return nil, errClosed
	case q.inside >= q.parallel+q.waiting:
		return nil, errBusy
	case c != nil && c.inside >= q.parallel+q.each:
		return nil, errYours
	case c == nil:
		c = &client{}
		q.clients[name] = c
	}
	c.inside++
	q.inside++
	q.order++
	return &ticket{queue: q, client: name, order: q.order, turn: make(chan struct{})}, nil
}

// wait waits until the request may start.
func (t *ticket) wait(ctx context.Context) error {
	q := t.queue
	q.mu.Lock()
	c := q.clients[t.client]
	c.ready = append(c.ready, t)
	q.start()
	q.mu.Unlock()
	select {
	case <-t.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx) // done gives the turn back if it came meanwhile
	}
}

// before reports whether it is a client's turn before another one's. Both have requests that are ready.
func (c *client) before(d *client) bool {
	if c.last != d.last {
		return c.last < d.last
	}
	return c.ready[0].order < d.ready[0].order
}

// start lets requests start while there is room. The caller holds q.mu.
func (q *queue) start() {
	for q.running < q.parallel {
		var next *client
		for _, c := range q.clients {
			if len(c.ready) > 0 && (next == nil || c.before(next)) {
				next = c
			}
		}
		if next == nil {
			return
		}
		t := next.ready[0]
		next.ready = next.ready[1:]
		q.running++
		q.turn++
		next.last = q.turn
		t.started = time.Now()
		close(t.turn)
	}
}

// done ends a request, whether it has started or not.
func (t *ticket) done() {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.clients[t.client]
	for i, waiting := range c.ready {
		if waiting == t {
			c.ready = append(c.ready[:i], c.ready[i+1:]...)
			break
		}
	}
	c.inside--
	q.inside--
	if c.inside == 0 {
		delete(q.clients, t.client)
	}
	if !t.started.IsZero() {
		q.running--
		q.took = (3*q.took + time.Since(t.started)) / 4
		q.start()
	}
}

// length returns the number of admitted requests that do not run.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.inside - q.running
}

// retryAfter estimates in how many seconds there is room.
func (q *queue) retryAfter() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	const most = 600
	seconds := q.took.Seconds() * float64(q.inside) / float64(q.parallel)
	return int(min(max(seconds, 1), most))
}

// close refuses further requests.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}
