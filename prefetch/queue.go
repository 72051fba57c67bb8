package prefetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
)

// ErrClosed is what reads end with that the queue's Close cut short.
var ErrClosed = errors.New("prefetch: the read queue is closed")

// DefaultPiece is how many bytes are read at a time unless told.
const DefaultPiece = 1 << 20

// ReaderFunc is a function as an io.ReaderAt, such as a closure over a tensor.
type ReaderFunc func(p []byte, off int64) (int, error)

// ReadAt calls f.
func (f ReaderFunc) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

// Request describes one read.
type Request struct {
	From  io.ReaderAt // safe for concurrent use; its errors are returned as they are
	Off   int64       // where in From the bytes begin
	Dst   []byte      // filled completely, or the read has failed
	Piece int         // most bytes to ask From for at a time; 0: DefaultPiece

	// Progress, if not nil, is told the size of every piece that has arrived.
	// It is called on the queue's goroutines, several at a time, never after
	// Wait has returned, and should be quick.
	Progress func(bytes int)
}

// Queue is a set of goroutines that read. Its methods may be called from any
// goroutine.
type Queue struct {
	mu      sync.Mutex
	work    sync.Cond // signalled when pending grows and when the queue closes
	pending []*Ticket // in order of submission; the ended ones are dropped on the way
	closed  bool

	exited sync.WaitGroup
	bytes  atomic.Int64
}

// Ticket stands for a read that was submitted.
type Ticket struct {
	queue *Queue
	ctx   context.Context
	req   Request
	done  chan struct{} // closed when nothing is in flight and nothing will be

	// Guarded by queue.mu.
	next     int // Dst up to here has been handed out
	inFlight int // pieces being read
	ended    bool
	err      error // why no more pieces are handed out
}

// New starts a queue that keeps up to readers reads in flight; fewer than one
// counts as one. Close stops it.
func New(readers int) *Queue {
	q := &Queue{}
	q.work.L = &q.mu
	readers = max(readers, 1)
	q.exited.Add(readers)
	for range readers {
		go q.readLoop()
	}
	return q
}

// Submit enters a read and returns at once. The read ends when it is complete,
// at the first error, or when ctx ends. Every ticket should be waited for, since
// only then the destination is the caller's again.
func (q *Queue) Submit(ctx context.Context, req Request) *Ticket {
	if req.Piece <= 0 {
		req.Piece = DefaultPiece
	}
	t := &Ticket{queue: q, ctx: ctx, req: req, done: make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		t.fail(ErrClosed)
	case req.From == nil || req.Off < 0 || req.Off > math.MaxInt64-int64(len(req.Dst)):
		t.fail(fmt.Errorf("prefetch: cannot read %d bytes at offset %d", len(req.Dst), req.Off))
	case len(req.Dst) == 0:
		t.complete()
	default:
		q.pending = append(q.pending, t)
		// All readers: the ticket may have a piece for each of them.
		q.work.Broadcast()
	}
	return t
}

// Bytes returns how many bytes have arrived since the queue was made, those of
// failed and cancelled reads included.
func (q *Queue) Bytes() int64 { return q.bytes.Load() }

// Close ends every read of which a piece was not begun with ErrClosed and waits
// for the pieces in flight and for the goroutines. It may be called more than
// once.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	for _, t := range q.pending {
		if t.next < len(t.req.Dst) {
			t.fail(ErrClosed)
		}
	}
	q.pending = nil
	q.work.Broadcast()
	q.mu.Unlock()
	q.exited.Wait()
}

// Wait returns when the read has ended: nil when the destination is filled. If
// ctx or the context of Submit ends first, the read is cancelled; pieces in
// flight cannot be, so Wait returns after them, with the context's error. It may
// be called from several goroutines and more than once.
func (t *Ticket) Wait(ctx context.Context) error {
	select {
	case <-t.done: // a finished read stays finished, whatever became of ctx
		return t.err
	default:
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		t.cancel(ctx.Err())
	case <-t.ctx.Done():
		t.cancel(t.ctx.Err())
	}
	<-t.done
	return t.err
}

func (t *Ticket) cancel(err error) {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	t.fail(err)
}

// fail hands out no more pieces; the ticket ends with err, unless there was an
// error before or it has ended already. The queue is locked.
func (t *Ticket) fail(err error) {
	if t.err == nil && !t.ended {
		t.err = err
	}
	t.next = len(t.req.Dst)
	t.complete()
}

// complete ends the ticket once nothing is in flight and nothing will be. The
// queue is locked.
func (t *Ticket) complete() {
	if !t.ended && t.inFlight == 0 && t.next == len(t.req.Dst) {
		t.ended = true
		close(t.done)
	}
}

// readLoop is the life of one reader.
func (q *Queue) readLoop() {
	defer q.exited.Done()
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		t, lo, hi := q.claim()
		if t == nil {
			return
		}
		q.mu.Unlock()
		err := t.readPiece(lo, hi)
		q.mu.Lock()
		t.inFlight--
		if err != nil {
			t.fail(err)
		}
		t.complete()
	}
}

// claim hands out the next piece, the bytes of Dst from lo to hi. It waits for
// one and returns nil once the queue is closed. The queue is locked.
func (q *Queue) claim() (t *Ticket, lo, hi int) {
	for {
		for len(q.pending) > 0 {
			t = q.pending[0]
			if err := t.ctx.Err(); err != nil {
				t.fail(err)
			}
			if lo = t.next; lo < len(t.req.Dst) {
				hi = lo + min(t.req.Piece, len(t.req.Dst)-lo)
				t.next = hi
				t.inFlight++
				return t, lo, hi
			}
			q.pending[0] = nil // not to be kept alive by the slice
			q.pending = q.pending[1:]
		}
		if q.closed {
			return nil, 0, 0
		}
		q.work.Wait()
	}
}

// readPiece fills Dst from lo to hi.
func (t *Ticket) readPiece(lo, hi int) error {
	off := t.req.Off + int64(lo)
	n, err := t.req.From.ReadAt(t.req.Dst[lo:hi], off)
	t.queue.bytes.Add(int64(n))
	switch {
	case n == hi-lo: // a full read may carry io.EOF
		if t.req.Progress != nil {
			t.req.Progress(n)
		}
		return nil
	case err == nil:
		return fmt.Errorf("prefetch: %d of %d bytes at offset %d: %w", n, hi-lo, off, io.ErrUnexpectedEOF)
	}
	return err
}
