package threadpool

import (
	"sync/atomic"
	"time"
)

// maxSpin is the longest that a waiter keeps its core before it sleeps. Falling
// asleep and being woken costs some 5–50 µs, and the memory that the sleeper
// would have read is idle for as long. In decoding a token the gaps between
// steps, and the ends of steps where one thread waits for the last part of
// another, are shorter than this; between tokens the waiters sleep.
const maxSpin = 200 * time.Microsecond

// minSpin is what is left of maxSpin where waiting was in vain again and
// again: on a crowded machine the awaited thread has no core, and spinning only
// keeps it from getting one.
const minSpin = 20 * time.Microsecond

// pausesPerCheck is the number of pause instructions between two looks at the
// awaited variable: well under a microsecond.
const pausesPerCheck = 8

// spinUntil spins until the condition holds or the waiter's patience is over, and
// reports whether it holds. Patience halves when it was in vain and doubles with
// success, so that it stays small where it is in vain more often than not.
func (w *Pool) spinUntil(p *parking, holds func() bool) bool {
	if w.spin == 0 {
		return holds()
	}
	patience := max(w.spin>>p.misses, min(minSpin, w.spin))
	for start := time.Now(); ; {
		for range 8 { // reading the clock costs more than a look
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

// maxMisses bounds how many successes bring the patience back.
const maxMisses = 4

// parking is where one goroutine sleeps until another wakes it. A wake-up may
// come without need; the sleeper looks at its condition again.
type parking struct {
	asleep   atomic.Bool
	signal   chan struct{} // capacity 1; filled only by whoever turns asleep off
	misses   uint          // halvings of its patience; the sleeper's own
	prefetch prefetchRange
	_        [cacheLine]byte
}

func (p *parking) init() { p.signal = make(chan struct{}, 1) }

// sleep returns after a wake, or at once when the condition holds already. The
// condition is looked at after asleep is set, and wakers change the condition
// before they look at asleep: one of the two sees the other.
func (p *parking) sleep(holds func() bool) {
	p.asleep.Store(true)
	if holds() && p.asleep.CompareAndSwap(true, false) {
		return
	}
	// Either there is reason to sleep, or a waker was faster and its signal has
	// to be consumed.
	<-p.signal
}

// wake wakes the sleeper, if it sleeps or is about to.
func (p *parking) wake() {
	if p.asleep.Load() && p.asleep.CompareAndSwap(true, false) {
		p.signal <- struct{}{}
	}
}
