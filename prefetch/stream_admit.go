package prefetch

import "time"

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
