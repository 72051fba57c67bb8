package prefetch

import (
	"io"
	"slices"
	"sync"
	"time"
)

// Run is a range of bytes that a [Stream] reads in order.
type Run struct {
	From io.ReaderAt // source, safe for concurrent use; its errors are returned unchanged
	Off  int64
	Size int64
	Kind Kind // kind of bytes, for the statistics
}

// Kind distinguishes the bytes that a stream reads.
type Kind uint8

// The kinds.
const (
	Weights Kind = iota
	KV           // keys and values
	kinds
)

// Sequence is the bytes of one pass over a stream: Body once, then Tail as often as
// the pass needs it. The layers of a model are the body. The output matrix is the
// tail, because not every pass needs it.
type Sequence struct {
	Body, Tail []Run
}

// run returns run i of a pass.
func (s *Sequence) run(i int) *Run {
	if i < len(s.Body) {
		return &s.Body[i]
	}
	return &s.Tail[(i-len(s.Body))%len(s.Tail)]
}

// Ring is the memory of a stream: Slots pieces, followed by a slack of at least the
// size of the largest unit that Take returns.
type Ring struct {
	Memory []byte
	Piece  int // size of one read; runs are divided into pieces from their start
	Slots  int
}

// Stream reads the same sequence of runs repeatedly, ahead of its user: while a layer
// computes, the stream reads the following layers, at the end of a pass those at the
// start of the next. Several reads at a time fill the slots of a ring. The user takes
// the bytes in order, which frees the slots before its position. A stream allocates no
// memory while it reads.
//
// One goroutine, the user, calls Begin, Take, Finish and Reconfigure. Any goroutine may
// call Submit, FlashBound, Stats and Close.
type Stream struct {
	mu        sync.Mutex
	work      sync.Cond     // signals that a reader may find work, or that no read is in flight
	completed chan struct{} // capacity 1: the reads that the user waits for have completed (goroutine readers)
	seq       Sequence
	ring      Ring
	slots     []slot
	closed    bool
	paused    bool // no read starts
	held      bool // the stream reads only runs of the user's pass before run allowed
	allowed   int
	inFlight  int

	// Next read: its piece number, counted since the last reset, and its position in
	// the sequence.
	next        int64
	pass        int64
	run         int
	off         int64
	currentPass int64 // pass of the user
	tails       int   // how often the user's pass reads the tail
	open        bool  // between Begin and Finish
	released    int64 // pieces below this number have been used

	// The user waits for the pieces from one number up to another. The range is empty
	// if it does not wait.
	awaited struct{ from, to int64 }

	// Position of the user; only the user's goroutine accesses it.
	position struct {
		run   int
		piece int64 // number of the run's first piece
	}

	// refused: the scheduler refused the next piece to the reader goroutines.
	refused bool
	leave   func() // ends the membership in the scheduler
	rate    passRate

	user    Threads
	readers int // number of reader goroutines, 0 before they are needed
	exited  sync.WaitGroup
	queued  queueState
	stats   [kinds]StreamStats
}

// Threads describes the threads of a stream's user.
type Threads struct {
	// Scheduler, if set, admits the reads.
	Scheduler *Scheduler
	// Readers is the number of reader goroutines if the operating system has no read
	// queue.
	Readers int
	// ReserveReaders, if set, is called before the reader goroutines start.
	ReserveReaders func(readers int)
	// RunParts, if set, calls part for each number below parts on several threads and
	// returns when all calls have returned. The threads are idle while the user calls
	// Take. The stream uses them to verify the bytes that it has read.
	RunParts func(parts int, part func(part, worker int))
}

// StreamStats counts the work of a stream since its creation.
type StreamStats struct {
	Bytes   int64         // bytes read
	Stalled time.Duration // time that the user waited for bytes
	Stalls  int           // number of waits
}

// slot is the state of a piece in the ring.
type slot struct {
	number    int64 // number of the piece
	reading   bool
	completed bool
	checked   bool // its checksums are verified, or it has none
	err       error
	grant     Grant // of the read in flight

	// Source of the piece.
	run   *Run
	off   int64
	bytes int
}

// NewStream starts reading at once: through the operating system's read queue if
// there is one and all runs are [Stored], otherwise with goroutines. The ring's
// memory belongs to the stream until Close has returned.
func NewStream(user Threads, ring Ring, seq Sequence) *Stream {
	s := &Stream{completed: make(chan struct{}, 1), user: user}
	s.work.L = &s.mu
	s.queued.checkPart = s.checkPart
	s.leave = user.Scheduler.Join(s.work.Broadcast, s.collect)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.configure(ring, seq)
	return s
}

// configure prepares the stream to read a sequence from its start. The caller holds
// the lock, and no read is in flight.
func (s *Stream) configure(ring Ring, seq Sequence) {
	ring.Piece = max(1, ring.Piece)
	s.ring, s.seq = ring, seq
	s.slots = slices.Grow(s.slots[:0], ring.Slots)[:ring.Slots]
	for i := range s.slots {
		s.slots[i] = slot{number: -1}
	}
	s.next, s.pass, s.run, s.off = 0, 0, 0, 0
	s.currentPass, s.tails, s.released = -1, 0, 0 // before the first pass
	s.position.run, s.position.piece = 0, 0
	s.awaited.from, s.awaited.to = 0, 0
	s.open, s.paused = false, false
	s.rate.configure(seq)
	s.user.Scheduler.fit(ring)
	s.queued.on, s.queued.lastStall = s.canQueue(), s.currentPass
	s.start()
}

// start starts as many reads as possible. The caller holds the lock.
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

// Reconfigure waits for the reads in flight and continues with another ring and
// sequence. After it returns, the old ring belongs to the caller.
func (s *Stream) Reconfigure(ring Ring, seq Sequence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopReads()
	s.configure(ring, seq)
}

// stopReads prevents new reads and waits for those in flight. The caller holds the
// lock.
func (s *Stream) stopReads() {
	s.paused = true
	if s.queued.on && !s.closed {
		s.queued.queue.Drain()
		s.endQueued()
	}
	for s.inFlight > 0 {
		s.work.Wait()
	}
}

// Begin starts a pass that reads the tail a number of times. If the previous pass did
// not Finish, reading restarts with the first run.
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
	s.rate.begin()
	s.start()
}

// Hold disables or enables prefetching, for measurements. A held stream reads only the
// runs that [Stream.Allow] admits.
func (s *Stream) Hold(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.allowed = on, 0
	s.start()
}

// Allow admits the runs of this pass before run i to a held stream.
func (s *Stream) Allow(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed = i
	s.start()
}

// Finish ends a pass and skips the runs that were not taken.
func (s *Stream) Finish() {
	s.advance(len(s.seq.Body)+s.tails*len(s.seq.Tail), 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = false
	s.rate.finish(s.tails)
	if s.pass <= s.currentPass { // the next read is one of the skipped runs
		s.pass, s.run, s.off, s.next = s.currentPass+1, 0, 0, s.position.piece
	}
	s.start()
}

// advance moves the user's position forward to an offset of run i and frees the slots
// before it.
func (s *Stream) advance(i int, off int64) {
	for s.position.run < i {
		s.position.piece += s.pieces(s.seq.run(s.position.run))
		s.position.run++
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	free := s.position.piece + off/int64(s.ring.Piece)
	for range min(free-s.released, int64(s.readers)) {
		s.work.Signal() // one reader for each slot: waking more would take cores from computing threads
	}
	s.released = max(s.released, free)
}

// pieces returns the number of pieces of a run.
func (s *Stream) pieces(r *Run) int64 {
	return (r.Size + int64(s.ring.Piece) - 1) / int64(s.ring.Piece)
}

// Stats returns the counts for one kind of bytes.
func (s *Stream) Stats(of Kind) StreamStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats[of]
}

// Close waits for the reads in flight. A concurrent or later Take returns ErrClosed.
func (s *Stream) Close() {
	s.mu.Lock()
	s.closed = true
	s.work.Broadcast()
	s.queued.close()
	if s.queued.on {
		s.endQueued()
	}
	s.mu.Unlock()
	s.leave()
	select {
	case s.completed <- struct{}{}:
	default:
	}
	s.exited.Wait()
}

// passRate is the rate at which passes take the bytes of a stream.
type passRate struct {
	body, tail int64 // bytes
	begun      time.Time
	rate       float64 // bytes per second in the last pass; 0: unknown
}

// configure sets the bytes of a pass.
func (p *passRate) configure(seq Sequence) {
	*p = passRate{}
	for i := range seq.Body {
		p.body += seq.Body[i].Size
	}
	for i := range seq.Tail {
		p.tail += seq.Tail[i].Size
	}
}

func (p *passRate) begin() { p.begun = time.Now() }

func (p *passRate) finish(tails int) {
	if took := time.Since(p.begun).Seconds(); took > 0 {
		p.rate = float64(p.body+int64(tails)*p.tail) / took
	}
}

// dueIn returns when the user takes bytes at a distance from its position; 0 if unknown.
func (p *passRate) dueIn(distance int64) time.Duration {
	if p.rate == 0 {
		return 0
	}
	return max(1, time.Duration(float64(distance)/p.rate*float64(time.Second)))
}

// admit asks the scheduler for the read of the next piece. What the user waits for is always
// admitted, so that a refused stream goes on at the latest when its user needs the piece. The
// caller holds the lock.
func (s *Stream) admit() (Grant, bool) {
	return s.user.Scheduler.admitStreamed(streamRead{
		bytes: s.nextBytes(), due: s.rate.dueIn((s.next - s.released) * int64(s.ring.Piece)), awaited: s.next < s.awaited.to,
		polled: s.queued.on, batched: s.queued.on && s.queued.queue.CompletesInBatches(),
	})
}

// collect records completed reads that the user has not collected. While the user waits, it
// collects them itself.
func (s *Stream) collect() {
	if s.mu.TryLock() {
		defer s.mu.Unlock()
		if s.queued.on && !s.closed {
			s.collectCompleted(0)
		}
	}
}

// endQueued ends all reads of the system's queue, which has drained. The caller holds the lock.
func (s *Stream) endQueued() {
	for i := range s.slots {
		if p := &s.slots[i]; p.reading {
			p.reading = false
			s.user.Scheduler.Done(p.grant)
		}
	}
	s.inFlight = 0
}
