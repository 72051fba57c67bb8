package prefetch

import (
	"slices"
	"sync"
	"time"
)

// Class says how urgent a transfer is. The most urgent class comes first.
type Class uint8

// The classes.
const (
	Awaited  Class = iota // a matmul, attention or a caller waits for it now
	Streamed              // the stream, ahead of its user
	Guessed               // what later steps may need
	Written               // what is written behind the computation
	Classes               // the number of classes
)

// String returns the name of the class in statistics.
func (c Class) String() string { return [...]string{"awaited", "streamed", "guessed", "written"}[c] }

// Scheduler admits all transfers between flash and an engine: streamed weights and KV, picked
// pages, experts, embedding rows, spills and saves. Its budget is the number of bytes in flight
// that keep the device busy. A class gets what the more urgent classes leave of it. A transfer
// that would miss its deadline moves up to a more urgent class.
//
// Admit never waits, and what is awaited is always admitted. So no admission waits for the
// completion of a read that only the waiting goroutine could collect from the system's queue.
// Whoever is refused tries again when the scheduler wakes it, or when its own work goes on. Only
// a [Writer] waits, on its own goroutine.
//
// Any goroutine may call its methods. A nil Scheduler admits everything and counts nothing.
type Scheduler struct {
	mu          sync.Mutex
	ring, piece int64 // the largest ring and piece of all streams
	inFlight    [Classes]int64
	total       int64 // bytes in flight of all classes
	writers     []*writeWait
	clients     []*client
	refused     Grant     // the most urgent refusal since the clients were woken; no bytes: none
	contested   time.Time // when other reads than those of streams were last submitted
	stats       [Classes]ClassStats
	refusedAt   [Classes]time.Time // the oldest refusal since the last admission; zero: none

	// Measurement of the device: the bytes of transfers that have ended, the time in which
	// transfers were in flight, up to busyAt, and the moving average of bytes per second.
	bytes  int64
	busy   time.Duration
	busyAt time.Time
	rate   float64
}

// ClassStats counts the transfers of a class.
type ClassStats struct {
	Transfers int64 `json:"transfers"`
	Bytes     int64 `json:"bytes"`
	// Waits and Waited count, for what is awaited, how often and how long somebody waited for
	// reads; for other classes, how often and how long admissions waited for more urgent ones.
	Waits  int64         `json:"waits"`
	Waited time.Duration `json:"waited_ns"`
	// MovedUp counts transfers that came from a less urgent class.
	MovedUp int64 `json:"moved_up"`
}

// client is a user of the scheduler that can be refused.
type client struct{ wake, collect func() }

// Grant is an admitted transfer.
type Grant struct {
	class Class
	bytes int64
}

const (
	// busyTime is how long the device needs for what is in flight while several classes want it: a
	// read that somebody waits for waits about as long behind them. It bridges the time in which
	// the system does not run the thread that submits the next reads.
	busyTime = 16 * time.Millisecond
	// leastDepth and leastPieces keep a device busy whose speed is not known.
	leastDepth  = 2 << 20
	leastPieces = 4
	// contestTime is how long a stream leaves room for others after it has met one.
	contestTime = 50 * time.Millisecond
	// measureTime is the least time between two measurements of the device.
	measureTime = 10 * time.Millisecond
	// Guesses begin while less than depth/guessPart is in flight, and writes while less than
	// depth/writePart is.
	guessPart, writePart = 2, 4
)

// NewScheduler returns a scheduler without transfers.
func NewScheduler() *Scheduler { return &Scheduler{} }

// Join registers a client. wake is called when there is room after a refusal, and collect before
// a writer waits: it calls Done for reads whose completion was not noticed yet. Either may be
// nil. Both must return at once and may not lock what is held during a call of the scheduler.
// The client calls leave when it ends.
func (s *Scheduler) Join(wake, collect func()) (leave func()) {
	if s == nil {
		return func() {}
	}
	c := &client{wake, collect}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(slices.Clip(s.clients), c) // others may call the clients of the old list
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.clients = slices.DeleteFunc(slices.Clone(s.clients), func(other *client) bool { return other == c })
	}
}

// fit tells the scheduler the sizes of a stream's reads.
func (s *Scheduler) fit(ring Ring) {
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.piece, s.ring = max(s.piece, int64(ring.Piece)), max(s.ring, int64(ring.Piece)*int64(ring.Slots))
	}
}

// Admit admits a transfer or refuses it. The caller calls Done when an admitted transfer has
// ended.
func (s *Scheduler) Admit(class Class, bytes int) (Grant, bool) {
	if s == nil {
		return Grant{}, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.contested = now
	if s.fits(class, int64(bytes), 0) && (class == Awaited || !s.writerBefore(class)) {
		return s.start(class, int64(bytes), now), true
	}
	s.refuse(class, int64(bytes), now)
	return Grant{}, false
}

// streamRead is a read of a stream.
type streamRead struct {
	bytes   int
	due     time.Duration // until the user takes it, roughly; 0: unknown
	awaited bool          // the user waits for it
	polled  bool          // the stream tries again without being woken
	batched bool          // the device completes all reads in flight together
}

// admitStreamed admits a read of a stream. If the device cannot read it before its user takes
// it, the read moves up. A device that completes reads in batches needs large ones.
func (s *Scheduler) admitStreamed(r streamRead) (Grant, bool) {
	if s == nil {
		return Grant{}, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, bytes, alone := time.Now(), int64(r.bytes), int64(0)
	if r.batched || now.Sub(s.contested) > contestTime {
		alone = s.ring
	}
	fits := s.fits(Streamed, bytes, alone) && !s.writerBefore(Streamed)
	late := r.awaited || r.due > 0 && r.due <= s.timeFor(s.total+bytes)
	switch {
	case r.awaited, !fits && late:
		s.stats[Awaited].MovedUp++
		return s.start(Awaited, bytes, now), true
	case fits:
		return s.start(Streamed, bytes, now), true
	case !r.polled:
		s.refuse(Streamed, bytes, now)
	default:
		s.markRefusal(Streamed, now)
	}
	return Grant{}, false
}

// refuse records a refusal, after which the clients are woken. The caller holds the lock, here
// and below.
func (s *Scheduler) refuse(class Class, bytes int64, now time.Time) {
	if s.refused.bytes == 0 || class < s.refused.class {
		s.refused = Grant{class, bytes}
	}
	s.markRefusal(class, now)
}

// markRefusal records when a class began to wait.
func (s *Scheduler) markRefusal(class Class, now time.Time) {
	if s.refusedAt[class].IsZero() {
		s.refusedAt[class] = now
	}
}

// start counts a transfer that begins, and the wait of its class.
func (s *Scheduler) start(class Class, bytes int64, now time.Time) Grant {
	if at := &s.refusedAt[class]; !at.IsZero() {
		s.stats[class].Waits++
		s.stats[class].Waited += now.Sub(*at)
		*at = time.Time{}
	}
	if s.total == 0 {
		s.busyAt = now
	}
	s.inFlight[class] += bytes
	s.total += bytes
	s.stats[class].Transfers++
	s.stats[class].Bytes += bytes
	return Grant{class, bytes}
}

// fits reports whether the budget has room for a transfer. A transfer that is larger than the
// part of its class waits until nothing is in flight. alone is the budget of a stream that has
// met no other reads lately.
func (s *Scheduler) fits(class Class, bytes, alone int64) bool {
	limit := s.depth()
	switch class {
	case Awaited:
		return true
	case Streamed:
		limit = max(limit, alone)
	case Guessed:
		limit /= guessPart
	default:
		limit /= writePart
	}
	if class > Streamed && s.inFlight[Awaited] > 0 {
		return false
	}
	return s.total == 0 || s.total+bytes <= limit
}

// depth returns the bytes in flight that keep the device busy.
func (s *Scheduler) depth() int64 {
	return max(leastDepth, leastPieces*s.piece, int64(s.rate*busyTime.Seconds()))
}

// timeFor returns the time in which the device reads a number of bytes; 0 if that is unknown.
func (s *Scheduler) timeFor(bytes int64) time.Duration {
	if s.rate == 0 {
		return 0
	}
	return time.Duration(float64(bytes) / s.rate * float64(time.Second))
}

// Done ends a transfer.
func (s *Scheduler) Done(g Grant) {
	if s == nil || g.bytes == 0 {
		return
	}
	s.mu.Lock()
	s.inFlight[g.class] -= g.bytes
	s.total -= g.bytes
	s.measure(g.bytes)
	s.admitWriters()
	var clients []*client
	if r := s.refused; r.bytes > 0 && s.fits(r.class, r.bytes, 0) && !s.writerBefore(r.class) {
		s.refused, clients = Grant{}, s.clients
	}
	s.mu.Unlock()
	for _, c := range clients {
		if c.wake != nil {
			c.wake()
		}
	}
}

// measure counts bytes that the device has transferred.
func (s *Scheduler) measure(bytes int64) {
	now := time.Now()
	s.bytes += bytes
	s.busy += now.Sub(s.busyAt)
	s.busyAt = now
	if s.busy < measureTime {
		return
	}
	if now := float64(s.bytes) / s.busy.Seconds(); s.rate == 0 {
		s.rate = now
	} else {
		s.rate += (now - s.rate) / 8
	}
	s.bytes, s.busy = 0, 0
}

// Waited counts that somebody waited for reads.
func (s *Scheduler) Waited(d time.Duration) {
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stats[Awaited].Waits++
		s.stats[Awaited].Waited += d
	}
}

// Stats returns the counts of each class.
func (s *Scheduler) Stats() (stats [Classes]ClassStats) {
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		stats = s.stats
	}
	return stats
}
