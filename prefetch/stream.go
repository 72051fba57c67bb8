package prefetch

import (
	"io"
	"slices"
	"sync"
	"time"
)

// Run is a range of bytes that a [Stream] reads in order.
type Run struct {
	From io.ReaderAt // safe for concurrent use; its errors are returned as they are
	Off  int64
	Size int64
	Kind Kind // of bytes, for the statistics
}

// Kind tells apart what one stream brings.
type Kind uint8

// The kinds.
const (
	Weights Kind = iota
	KV           // keys and values
	kinds
)

// Sequence is what one pass over a stream consists of: the body, once, and the
// tail as many times as the pass asks for. A model's layers are the body, its
// output matrix, which not every pass needs, the tail.
type Sequence struct {
	Body, Tail []Run
}

// run returns the i-th run of a pass.
func (s *Sequence) run(i int) *Run {
	if i < len(s.Body) {
		return &s.Body[i]
	}
	return &s.Tail[(i-len(s.Body))%len(s.Tail)]
}

// Ring is the memory that a stream passes through: Slots pieces and behind them
// a slack of at least the largest unit that is ever taken.
type Ring struct {
	Memory []byte
	Piece  int // bytes of one read; runs are cut into pieces from their start
	Slots  int
}

// Stream reads the same sequence of runs over and over, ahead of who uses them:
// while a layer is computed, the next ones are on their way, over the end of a
// pass into the beginning of the next. The system, or goroutines, fill the slots of a
// ring, several at a time; the user takes bytes in order, and what lies before the
// place where it takes is free for the next pieces. Nothing is allocated on the way.
//
// Begin, Take, Finish and Reconfigure belong to one goroutine.
type Stream struct {
	mu        sync.Mutex
	work      sync.Cond     // signalled when a reader may find something to do, or nothing is in flight
	completed chan struct{} // capacity 1: what the user awaits has landed, where goroutines read
	seq       Sequence
	ring      Ring
	slots     []slot
	closed    bool
	paused    bool // no piece is begun
	held      bool // no run is read of the user's pass from allowed on, and none of the next
	allowed   int
	inFlight  int

	// What is read next: a piece by its number since the last reset, and where
	// it lies.
	next        int64
	pass        int64
	run         int
	off         int64
	currentPass int64 // of the user
	tails       int   // how often the user's pass takes the tail
	open        bool  // the user is within a pass
	released    int64 // pieces below this number are free

	// What the user waits for: all pieces from one number up to another. There are
	// none where it does not wait.
	awaited struct{ from, to int64 }

	// Where the user is; only the user looks at it.
	position struct {
		run   int
		piece int64 // number of the run's first piece
	}

	user    Threads
	readers int // goroutines that read, 0 until they are needed
	exited  sync.WaitGroup
	queued  queueState
	stats   [kinds]StreamStats
}

// Threads is who a stream serves.
type Threads struct {
	// Readers is how many goroutines read where the system does not by itself.
	Readers int
	// Starting, if set, is called before they are started.
	ReserveReaders func(readers int)
	// Together, if set, runs parts on several threads, which are all free while the
	// user takes: it calls part for each of a number and returns when all have
	// returned. What has landed is checked so.
	RunParts func(parts int, part func(part, worker int))
}

// StreamStats says what a stream has done since it was made.
type StreamStats struct {
	Bytes   int64         // read
	Stalled time.Duration // that the user waited for bytes
	Stalls  int           // how many times it did
}

// slot is the state of one piece's place in the ring.
type slot struct {
	number    int64 // of the piece
	reading   bool
	completed bool
	checked   bool // what has landed through the queue has been checked, or need not be
	err       error

	// Where the piece comes from.
	run   *Run
	off   int64
	bytes int
}

// NewStream begins to read at once: with a queue of the system where it has one and
// all runs are [Stored], or else with goroutines. The memory of the ring is theirs
// until Close has returned.
func NewStream(user Threads, ring Ring, seq Sequence) *Stream {
	s := &Stream{completed: make(chan struct{}, 1), user: user}
	s.work.L = &s.mu
	s.queued.checkPart = s.checkPart
	s.mu.Lock()
	defer s.mu.Unlock()
	s.configure(ring, seq)
	return s
}

// configure sets a stream up to read a sequence from its start. The lock is
// held, and nothing is in flight.
func (s *Stream) configure(ring Ring, seq Sequence) {
	ring.Piece = max(1, ring.Piece)
	s.ring, s.seq = ring, seq
	s.slots = slices.Grow(s.slots[:0], ring.Slots)[:ring.Slots]
	for i := range s.slots {
		s.slots[i] = slot{number: -1}
	}
	s.next, s.pass, s.run, s.off = 0, 0, 0, 0
	s.currentPass, s.tails, s.released = -1, 0, 0 // a pass has not begun
	s.position.run, s.position.piece = 0, 0
	s.awaited.from, s.awaited.to = 0, 0
	s.open, s.paused = false, false
	s.queued.on, s.queued.lastStall = s.canQueue(), s.currentPass
	s.start()
}

// start lets reading begin. The lock is held.
func (s *Stream) start() {
	if s.closed {
		return
	}
	if s.queued.on {
		s.collectCompleted(0)
		s.submit()
		return
	}
	if s.readers == 0 && len(s.slots) > 0 {
		s.readers = max(1, s.user.Readers)
		if s.user.ReserveReaders != nil {
			s.user.ReserveReaders(s.readers)
		}
		s.exited.Add(s.readers)
		for range s.readers {
			go s.readLoop()
		}
	}
	s.work.Broadcast()
}

// Reconfigure stops reading, waits for what is in flight and goes on with
// another ring and sequence. The old ring is free once it has returned.
func (s *Stream) Reconfigure(ring Ring, seq Sequence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopReads()
	s.configure(ring, seq)
}

// stopReads lets no reader begin a piece and waits for those in flight. The lock is
// held.
func (s *Stream) stopReads() {
	s.paused = true
	if s.queued.on && !s.closed {
		s.queued.queue.Drain()
		s.inFlight = 0
	}
	for s.inFlight > 0 {
		s.work.Wait()
	}
}

// Begin starts a pass that takes the tail a number of times. If the pass before
// did not Finish, reading starts again from the first run.
func (s *Stream) Begin(tails int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open || s.queued.on && s.queued.unavailable {
		s.stopReads()
		s.configure(s.ring, s.seq)
	}
	s.currentPass++
	s.position.run = 0
	s.tails, s.open, s.allowed = tails, true, 0
	s.start()
}

// Hold makes the stream read nothing of a pass but what [Stream.Allow] has named, or
// no longer. It shows what reading ahead is worth.
func (s *Stream) Hold(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.allowed = on, 0
	s.start()
}

// Allow lets a stream that is held read the runs of this pass that come before run i.
func (s *Stream) Allow(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed = i
	s.start()
}

// Finish ends a pass: what was not taken of it is skipped.
func (s *Stream) Finish() {
	s.advance(len(s.seq.Body)+s.tails*len(s.seq.Tail), 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = false
	if s.pass <= s.currentPass { // readers are still at what was skipped
		s.pass, s.run, s.off, s.next = s.currentPass+1, 0, 0, s.position.piece
	}
	s.start()
}

// advance moves the user's place forward to an offset of run i and frees what
// lies before it.
func (s *Stream) advance(i int, off int64) {
	for s.position.run < i {
		s.position.piece += s.pieces(s.seq.run(s.position.run))
		s.position.run++
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	free := s.position.piece + off/int64(s.ring.Piece)
	for range min(free-s.released, int64(s.readers)) {
		s.work.Signal() // a reader for each slot: to wake the others for nothing takes a core from who computes
	}
	s.released = max(s.released, free)
}

// pieces returns into how many pieces a run is cut.
func (s *Stream) pieces(r *Run) int64 {
	return (r.Size + int64(s.ring.Piece) - 1) / int64(s.ring.Piece)
}

// Stats returns what the stream has done so far for bytes of a kind.
func (s *Stream) Stats(of Kind) StreamStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats[of]
}

// Close waits for all reads that are under way. A Take that is under way, or
// comes later, ends with ErrClosed.
func (s *Stream) Close() {
	s.mu.Lock()
	s.closed = true
	s.work.Broadcast()
	s.queued.close()
	if s.queued.on {
		s.inFlight = 0
	}
	s.mu.Unlock()
	select {
	case s.completed <- struct{}{}:
	default:
	}
	s.exited.Wait()
}
