package threadpool

import (
	"sync/atomic"

	"github.com/llmrun/llmrun/tiering"
)

// aheadStep is how much a waiter asks for between two looks at what it waits for.
const aheadStep = 1 << 10

// ahead is memory that a worker will read first in the next step. While it
// waits it has the memory brought near its core, which costs nobody anything:
// memory would be idle otherwise.
type ahead struct {
	from, to atomic.Uintptr // set by the caller of Run
	begun    uintptr        // the from that at began at; the waiter's own, like
	at       uintptr        // how far it is
}

// Foresee tells a worker what it will read first in the run after the next one,
// or when that has ended, in the next: n bytes from an address on. Nothing is
// read: it is no harm if the memory is given back meanwhile.
func (w *Workers) Foresee(worker int, address uintptr, n int) {
	a := &w.caller.ahead
	if worker > 0 {
		a = &w.helpers[worker-1].ahead
	}
	a.to.Store(address + uintptr(n))
	a.from.Store(address)
}

// fetchAhead asks for a little of the memory, and reports false where all has
// been asked for.
func (p *parking) fetchAhead() bool {
	a := &p.ahead
	if from := a.from.Load(); from != a.begun {
		a.begun, a.at = from, from
	}
	// Between the two stores of Foresee the end is another memory's: one step too
	// many is no harm.
	if a.at >= a.to.Load() {
		return false
	}
	tiering.Prefetch(a.at, aheadStep)
	a.at += aheadStep
	return true
}

// HomeStart returns the unit that a worker begins with in a run over so many
// units, if no rate changes before.
func (w *Workers) HomeStart(worker, units int) int {
	fastest := w.fastest()
	sum, before := 0, 0
	for i := range w.cores {
		weight := w.cores[i].weight(fastest)
		if i < worker {
			before += weight
		}
		sum += weight
	}
	return int(int64(units) * int64(before) / int64(sum))
}
