package hetero

import (
	"sync/atomic"
	"time"
)

// spinFor is how long a waiter keeps its core before it sleeps. Falling asleep
// and being woken costs some 5–50 µs; watching for about as long costs at most
// twice the best choice made in hindsight. It bridges the gaps between the
// steps of a layer, while between tokens and on a crowded machine the waiters
// sleep. In BenchmarkRun on 16 cores steps take a quarter of the time that they
// take without spinning, and five times this figure gains nothing more.
const spinFor = 20 * time.Microsecond

// pausesPerLook is the number of pause instructions between two looks at the
// awaited variable: well under a microsecond.
const pausesPerLook = 8

// watch spins until the condition holds or the time is over, and reports
// whether it holds.
func (w *Workers) watch(holds func() bool) bool {
	if w.spin == 0 {
		return holds()
	}
	for start := time.Now(); ; {
		for range 8 { // reading the clock costs more than a look
			if holds() {
				return true
			}
			pause(pausesPerLook)
		}
		if time.Since(start) > w.spin {
			return false
		}
	}
}

// parking is where one goroutine sleeps until another wakes it. A wake-up may
// come without need; the sleeper looks at its condition again.
type parking struct {
	asleep atomic.Bool
	signal chan struct{} // capacity 1; filled only by whoever turns asleep off
	_      [cacheLine]byte
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
