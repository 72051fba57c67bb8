package threadpool

import (
	"sync/atomic"

	"github.com/llmrun/llmrun/tiering"
)

// prefetchStep is how many bytes a waiter prefetches between two checks of its
// condition.
const prefetchStep = 1 << 10

// prefetchRange is memory that a worker will read first in a later run. The worker
// prefetches it into its core's cache while it waits, when the memory would otherwise be
// idle.
type prefetchRange struct {
	from, to atomic.Uintptr // set by Pool.Prefetch
	begun    uintptr        // the value of from when at was set; like at, only the waiter accesses it
	at       uintptr        // next address to prefetch
}

// Prefetch announces the n bytes at address that a worker will read first in a later
// run. The worker prefetches them while it waits, at the latest at the end of the next
// run; therefore callers usually announce the memory of the run after the next. Only
// prefetch instructions access the bytes, so the caller may release the memory at any
// time.
func (w *Pool) Prefetch(worker int, address uintptr, n int) {
	a := &w.caller.prefetch
	if worker > 0 {
		a = &w.helpers[worker-1].prefetch
	}
	a.to.Store(address + uintptr(n))
	a.from.Store(address)
}

// prefetchNext prefetches one step and reports false when the range is finished.
func (p *parking) prefetchNext() bool {
	a := &p.prefetch
	if from := a.from.Load(); from != a.begun {
		a.begun, a.at = from, from
	}
	// Between the two stores of Prefetch the end belongs to another range: at worst
	// one step too many is prefetched.
	if a.at >= a.to.Load() {
		return false
	}
	tiering.Prefetch(a.at, prefetchStep)
	a.at += prefetchStep
	return true
}

// HomeStart returns the first unit of a worker's home in a run of the given number of
// units, provided that no rate changes before the run.
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
