package prefetch

import (
	"io"
	"slices"
	"time"
)

// writeWait is the wait of a [Writer] for the admission of its next piece.
type writeWait struct {
	hurried bool // somebody waits for the writer's job
	class   Class
	bytes   int64
	due     time.Time     // when it moves up
	patient time.Duration // how long it then waits until it moves up again
	grant   Grant
	granted bool
	ready   chan struct{} // capacity 1: granted
	timer   *time.Timer
}

const (
	// A write without a deadline moves up when the device could have transferred writeShare times
	// its bytes: then it has waited long enough for the reads.
	writeShare = 8
	// longestWait limits this wait, if the device is slow for a while.
	longestWait = 250 * time.Millisecond
	// collectEvery is how often a waiting writer looks for completed reads that nobody has
	// collected, for example because no pass runs.
	collectEvery = 2 * time.Millisecond
)

// newWriteWait returns a wait that a writer uses for one piece after another.
func newWriteWait() *writeWait {
	w := &writeWait{ready: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	return w
}

// awaitWrite admits a write of a number of bytes. It waits until the reads leave room. At due the
// write moves up to the class of the stream, and after the same time once more. So it waits for a
// limited time, whatever the reads do.
func (s *Scheduler) awaitWrite(w *writeWait, bytes int, due time.Time) Grant {
	if s == nil {
		return Grant{}
	}
	s.begin(w, int64(bytes), due)
	begun := time.Time{}
	for !s.tryWrite(w) {
		if begun.IsZero() {
			begun = time.Now()
		}
		s.collect()
		w.timer.Reset(collectEvery)
		select {
		case <-w.ready:
		case <-w.timer.C:
		}
		w.timer.Stop()
	}
	if !begun.IsZero() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stats[Written].Waits++
		s.stats[Written].Waited += time.Since(begun)
	}
	return w.grant
}

// begin registers a waiting writer.
func (s *Scheduler) begin(w *writeWait, bytes int64, due time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.class = Written
	if w.hurried {
		w.class = Awaited
	}
	w.bytes, w.due, w.patient, w.granted = bytes, due, max(collectEvery, time.Until(due)), false
	s.writers = append(s.writers, w)
}

// tryWrite reports whether a writer is admitted now, or was since its last call.
func (s *Scheduler) tryWrite(w *writeWait) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !w.granted {
		s.admitWriters()
	}
	if w.granted {
		select {
		case <-w.ready:
		default:
		}
	}
	return w.granted
}

// admitWriters admits the waiting writers for which there is room, the most urgent first. The
// caller holds the lock.
func (s *Scheduler) admitWriters() {
	if len(s.writers) == 0 {
		return
	}
	now := time.Now()
	for _, w := range s.writers {
		if w.class > Awaited && !now.Before(w.due) {
			w.due = now.Add(w.patient)
			if w.class--; w.class == Guessed {
				w.class = Streamed
			}
			s.stats[w.class].MovedUp++
		}
	}
	slices.SortStableFunc(s.writers, func(a, b *writeWait) int {
		if a.class != b.class {
			return int(a.class) - int(b.class)
		}
		return a.due.Compare(b.due)
	})
	for len(s.writers) > 0 && s.fits(s.writers[0].class, s.writers[0].bytes, s.ring) {
		w := s.writers[0]
		s.writers = slices.Delete(s.writers, 0, 1)
		w.grant, w.granted = s.start(w.class, w.bytes, now), true
		w.ready <- struct{}{} // never blocks: a writer waits for one grant at a time
	}
}

// writerBefore reports whether a waiting writer has moved up to a class or beyond it, so that
// its reads wait too. The caller holds the lock.
func (s *Scheduler) writerBefore(class Class) bool {
	return slices.ContainsFunc(s.writers, func(w *writeWait) bool { return w.class <= class })
}

// hurry says whether somebody waits for the job of a writer.
func (s *Scheduler) hurry(w *writeWait, on bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.hurried = on
	if on && slices.Contains(s.writers, w) {
		w.class = Awaited
		s.stats[Awaited].MovedUp++
		s.admitWriters()
	}
}

// collect asks all clients for completed reads.
func (s *Scheduler) collect() {
	s.mu.Lock()
	clients := s.clients
	s.mu.Unlock()
	for _, c := range clients {
		if c.collect != nil {
			c.collect()
		}
	}
}

// fairWait returns how long a write of a number of bytes waits before it moves up, if nothing
// else is known of its deadline.
func (s *Scheduler) fairWait(bytes int) time.Duration {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(longestWait, s.timeFor(writeShare*int64(bytes)))
}

// WriteNow is a [WriteFunc] for a caller that waits.
func (s *Scheduler) WriteNow(to io.WriterAt, p []byte, off int64) error {
	grant, _ := s.Admit(Awaited, len(p))
	defer s.Done(grant)
	_, err := to.WriteAt(p, off)
	return err
}
