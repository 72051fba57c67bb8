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
	return heapNeed(liveHeap() - heapLimits.enginesBut(m) - engine)
}

// heapNeed returns what has to be set aside for so many bytes that are in use.
func heapNeed(live int64) int64 { return max(0, live) / heapStep * heapStep * 3 / 2 }

// heapLimits is Go's memory limit, which is one for the whole program.
var heapLimits goLimit

// goLimit is a limit that engines with budgets have set. It is the sum of what their
// plans leave the heap, but never more than the program's own limit; when the last of
// them is closed, in whichever order, it is that again.
type goLimit struct {
	mu  sync.Mutex
	own int64 // what the program has set
	set int64 // what was set here, to see whether the program did since
	of  map[*memory]heapUse
}

// heapUse is what an engine's plan leaves the heap.
type heapUse struct {
	all    int64
	engine int64 // of these, what the engine itself needs
}

// enginesBut returns what all engines but one need themselves.
func (g *goLimit) enginesBut(m *memory) (n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for other, s := range g.of {
		if other != m {
			n += s.engine
		}
	}
	return n
}

// follow makes the share of an engine part of the limit; a share of nothing leaves it.
func (g *goLimit) follow(m *memory, s heapUse) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := debug.SetMemoryLimit(-1); now != g.set {
		g.own = now
	}
	delete(g.of, m)
	if s.all > 0 {
		if g.of == nil {
			g.of = map[*memory]heapUse{}
		}
		g.of[m] = s
	}
	g.set = g.own
	if len(g.of) > 0 {
		sum := int64(0)
		for _, s := range g.of {
			sum += s.all
		}
		g.set = min(g.own, sum)
	}
	debug.SetMemoryLimit(g.set)
}
