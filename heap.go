package llmrun

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// heapStep is in what steps the program's own heap is counted: less than one belongs
// to heapBytes.
const heapStep = 4 << 20

// liveHeap returns how much of Go's heap is in use.
func liveHeap() int64 {
	runtime.GC() // what was in use at the last collection may be long gone
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// programHeap returns what the program around engines needs of Go's heap: what it has in
// use, and half as much again, so that the collector does not run all the time. What
// engines need themselves, of which m is one, is no part of that.
func programHeap(m *memory, engine int64) int64 {
	return heapReserve(liveHeap() - heapLimits.enginesExcept(m) - engine)
}

// heapReserve returns what has to be set aside for so many bytes that are in use.
func heapReserve(live int64) int64 { return max(0, live) / heapStep * heapStep * 3 / 2 }

// heapLimits is Go's memory limit, which is one for the whole program.
var heapLimits goLimit

// goLimit is a limit that engines with budgets have set. It is the sum of what their
// plans leave the heap, but never more than the program's own limit; when the last of
// them is closed, in whichever order, it is that again.
type goLimit struct {
	mu      sync.Mutex
	program int64 // what the program has set
	applied int64 // what was set here, to see whether the program did since
	engines map[*memory]heapUse
}

// heapUse is what an engine's plan leaves the heap.
type heapUse struct {
	total  int64
	engine int64 // of these, what the engine itself needs
}

// enginesExcept returns what all engines but one need themselves.
func (g *goLimit) enginesExcept(m *memory) (n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for other, s := range g.engines {
		if other != m {
			n += s.engine
		}
	}
	return n
}

// update makes the share of an engine part of the limit; a share of nothing leaves it.
func (g *goLimit) update(m *memory, s heapUse) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := debug.SetMemoryLimit(-1); now != g.applied {
		g.program = now
	}
	delete(g.engines, m)
	if s.total > 0 {
		if g.engines == nil {
			g.engines = map[*memory]heapUse{}
		}
		g.engines[m] = s
	}
	g.applied = g.program
	if len(g.engines) > 0 {
		sum := int64(0)
		for _, s := range g.engines {
			sum += s.total
		}
		g.applied = min(g.program, sum)
	}
	debug.SetMemoryLimit(g.applied)
}
