package threadpool

import (
	"sync/atomic"

	"github.com/llmrun/llmrun/tiering"
)

// prefetchStep is how much a waiter asks for between two looks at what it waits for.
const prefetchStep = 1 << 10

// prefetchRange is memory that a worker will read first in the next step. While it
// waits it has the memory brought near its core, which costs nobody anything:
// memory would be idle otherwise.
type prefetchRange struct {
	from, to atomic.Uintptr // set by the caller of Run
	begun    uintptr        // the from that at began at; the waiter's own, like
	at       uintptr        // how far it is
}

// Prefetch tells a worker what it will read first in the run after the next one,
// or when that has ended, in the next: n bytes from an address on. Nothing is
// read: it is no harm if the memory is given back meanwhile.
func (w *Pool) Prefetch(worker int, address uintptr, n int) {
	a := &w.caller.prefetch
	if worker > 0 {
		a = &w.helpers[worker-1].prefetch
	}
	a.to.Store(address + uintptr(n))
	a.from.Store(address)
}

// prefetchNext asks for a little of the memory, and reports false where all has
// been asked for.
func (p *parking) prefetchNext() bool {
	a := &p.prefetch
	if from := a.from.Load(); from != a.begun {
		a.begun, a.at = from, from
	}
	// Between the two stores of Foresee the end is another memory's: one step too
	// many is no harm.
	if a.at >= a.to.Load() {
		return false
	}
	tiering.Prefetch(a.at, prefetchStep)
	a.at += prefetchStep
	return true
}

// HomeStart returns the unit that a worker begins with in a run over so many
// units, if no rate changes before.
func (w *Pool) HomeStart(worker, units int) int {
	fastest := w.fastestRate()
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
