package threadpool

import (
	"sync/atomic"
	"time"
)

// maxSpin is the longest time that a waiter spins before it sleeps. Sleeping and
// waking take 5–50 µs, during which the thread does not use its memory bandwidth.
// Within a decoded token the gaps between steps, and the waits for another thread's
// last part, are shorter than maxSpin; between tokens the waiters sleep.
const maxSpin = 200 * time.Microsecond

// minSpin is the spin time that remains after repeated timeouts. On a busy machine
// the awaited thread may have no core, and spinning only prevents it from getting one.
const minSpin = 20 * time.Microsecond

// pausesPerCheck is the number of pause instructions between two checks of the
// condition: well under a microsecond.
const pausesPerCheck = 8

// spinUntil spins until the condition holds or the time is over, and reports
// whether it holds. The time halves after a timeout and doubles after a success, so
// it stays short where most waits time out.
func (w *Pool) spinUntil(p *parking, holds func() bool) bool {
	if w.spin == 0 {
		return holds()
	}
	patience := max(w.spin>>p.misses, min(minSpin, w.spin))
	for start := time.Now(); ; {
		for range 8 { // reading the clock costs more than a check
			if holds() {
				p.misses = max(p.misses, 1) - 1
				return true
			}
			if !p.prefetchNext() {
				pause(pausesPerCheck)
			}
		}
		if time.Since(start) > patience {
			p.misses = min(p.misses+1, maxMisses)
			return false
		}
	}
}

// maxMisses bounds the number of successes that restore the full spin time.
const maxMisses = 4

// parking lets one goroutine sleep until another wakes it. Wake-ups may be
// spurious; the sleeper checks its condition again.
type parking struct {
	asleep   atomic.Bool
	signal   chan struct{} // capacity 1; filled only by the goroutine that clears asleep
	misses   uint          // halvings of the spin time; only the sleeper accesses it
	prefetch prefetchRange
	_        [cacheLine]byte
}

func (p *parking) init() { p.signal = make(chan struct{}, 1) }

// sleep returns after a wake, or at once when the condition already holds. It
// checks the condition after setting asleep, and wakers change the condition before
// they check asleep, so at least one of the two sees the other.
func (p *parking) sleep(holds func() bool) {
	p.asleep.Store(true)
	if holds() && p.asleep.CompareAndSwap(true, false) {
		return
	}
	// Either the condition does not hold, or a waker was faster and its signal has
	// to be consumed.
	<-p.signal
}

// wake wakes the sleeper if it sleeps or is about to.
func (p *parking) wake() {
	if p.asleep.Load() && p.asleep.CompareAndSwap(true, false) {
		p.signal <- struct{}{}
	}
}
