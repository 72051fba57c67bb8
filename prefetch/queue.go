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

// ErrClosed is the error of reads that Close has ended.
var ErrClosed = errors.New("prefetch: the read queue is closed")

// DefaultPiece is the default size of one read call.
const DefaultPiece = 1 << 20

// ReaderFunc is a function that implements io.ReaderAt.
type ReaderFunc func(p []byte, off int64) (int, error)

// ReadAt calls f.
func (f ReaderFunc) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

// Request describes a read.
type Request struct {
	From  io.ReaderAt // source, safe for concurrent use; its errors are returned unchanged
	Off   int64       // offset in From
	Dst   []byte      // destination; a successful read fills it completely
	Piece int         // maximum size of one call of From; 0: DefaultPiece

	// Progress, if not nil, receives the size of every completed piece. The queue's
	// goroutines call it, several at a time, but never after Wait has returned. It
	// must be fast.
	Progress func(bytes int)
}

// Queue executes reads on a number of goroutines. Any goroutine may call its methods.
type Queue struct {
	// Scheduler, if set before the first Submit, admits each piece as one that somebody waits for.
	Scheduler *Scheduler

	mu      sync.Mutex
	work    sync.Cond // signals that pending has grown or that the queue closes
	pending []*Ticket // in order of submission; may include ended tickets
	closed  bool

	exited sync.WaitGroup
	bytes  atomic.Int64
}

// Ticket represents a submitted read.
type Ticket struct {
	queue *Queue
	ctx   context.Context
	req   Request
	done  chan struct{} // closed when the read has ended

	// Guarded by queue.mu.
	next     int // offset in Dst of the next piece to start
	inFlight int // number of pieces being read
	ended    bool
	err      error // the reason why no more pieces start
}

// New starts a queue with the given number of reads in flight, at least one. Close
// stops it.
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

// Submit adds a read and returns at once. The read ends when it is complete, at the
// first error, or when ctx ends. Callers should Wait for every ticket: only then does
// the destination belong to them again.
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
		// Wake all readers: the ticket may have a piece for each of them.
		q.work.Broadcast()
	}
	return t
}

// Bytes returns the number of bytes read since the queue was created, including those
// of failed and cancelled reads.
func (q *Queue) Bytes() int64 { return q.bytes.Load() }

// Close ends all unfinished reads with ErrClosed. It waits for the pieces in flight
// and for the goroutines. It may be called more than once.
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

// Wait returns when the read has ended: nil if the destination is filled. If ctx or
// the context of Submit ends first, Wait cancels the read and returns the context's
// error after the pieces in flight have completed. Several goroutines may call it,
// repeatedly.
func (t *Ticket) Wait(ctx context.Context) error {
	select {
	case <-t.done: // a completed read stays completed even if ctx has ended
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

// fail starts no more pieces. The ticket ends with err unless it has an earlier error
// or has already ended. The caller holds the queue's lock.
func (t *Ticket) fail(err error) {
	if t.err == nil && !t.ended {
		t.err = err
	}
	t.next = len(t.req.Dst)
	t.complete()
}

// complete ends the ticket if no piece is in flight and none will start. The caller
// holds the queue's lock.
func (t *Ticket) complete() {
	if !t.ended && t.inFlight == 0 && t.next == len(t.req.Dst) {
		t.ended = true
		close(t.done)
	}
}

// readLoop runs one reader goroutine.
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

// claim returns the next piece to read, the bytes of Dst from lo to hi. It waits for
// one and returns nil when the queue closes. The caller holds the lock.
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
			q.pending[0] = nil // let the garbage collector free it
			q.pending = q.pending[1:]
		}
		if q.closed {
			return nil, 0, 0
		}
		q.work.Wait()
	}
}

// readPiece reads Dst from lo to hi.
func (t *Ticket) readPiece(lo, hi int) error {
	off := t.req.Off + int64(lo)
	grant, _ := t.queue.Scheduler.Admit(Awaited, hi-lo)
	defer t.queue.Scheduler.Done(grant)
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
