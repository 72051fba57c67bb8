package llmrun

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
)

// heapStep is the granularity of the program's heap in a plan. A smaller heap is part of
// heapBytes.
const heapStep = 4 << 20

// statedHeap is the heap that SetProgramHeap has stated, 0 for none.
var statedHeap atomic.Int64

// SetProgramHeap states how much Go heap the program needs beside its engines. Engines with a memory
// limit (see [MemoryOptions].RAM) that are opened later reserve that much, instead of 1.5 times
// what is live when they are opened: for a program whose heap will grow, and for plans that must
// not depend on the moment. 0 lets engines measure again.
func SetProgramHeap(bytes int64) { statedHeap.Store(max(0, bytes)) }

// liveHeap returns how much of Go's heap is live.
func liveHeap() int64 {
	runtime.GC() // the last collection may be long ago
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// readHeap is liveHeap. Tests replace it, because their plans must not depend on what other tests left behind.
var readHeap = liveHeap

// programHeap returns the Go heap to reserve for the program around its engines: what
// SetProgramHeap has stated, or 1.5 times what is live, so that the garbage collector does not run
// continuously. It excludes the heap of the engines themselves. Of the heap that the engine of m plans, which is not
// registered yet or changes, all may be live or nothing: least and most.
func programHeap(m *memory, engine int64) (least, most int64) {
	if stated := statedHeap.Load(); stated > 0 {
		return stated, stated
	}
	live := readHeap() - heapLimits.enginesExcept(m)
	return heapReserve(live - engine), heapReserve(live)
}

// heapReserve returns the heap to reserve for live bytes.
func heapReserve(live int64) int64 { return max(0, live) / heapStep * heapStep * 3 / 2 }

// setMemoryLimit is debug.SetMemoryLimit. Tests replace it: their process holds what other tests left behind too, and
// the collector would run continuously within the limit of an engine.
var setMemoryLimit = debug.SetMemoryLimit

// heapLimits manages Go's memory limit, of which the process has only one.
var heapLimits goLimit

// goLimit is the memory limit that engines with a budget set. It is the sum of the heaps that
// their plans reserve, at most the program's own limit. When the last engine is closed, the
// program's limit is restored.
type goLimit struct {
	mu      sync.Mutex
	program int64           // limit that the program set
	applied int64           // limit that this type set last; another value now means that the program changed it
	engines map[any]heapUse // by *memory or *opening
}

// heapUse is the heap that an engine's plan reserves.
type heapUse struct {
	total  int64
	engine int64 // part of total that the engine itself needs
	// unlimited: the engine leaves Go's limit as the program has set it.
	unlimited bool
}

// enginesExcept returns the heap that all engines except m need themselves.
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

// update sets the heap of an engine and applies the new limit. A zero heapUse removes the
// engine.
func (g *goLimit) update(m any, s heapUse) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := setMemoryLimit(-1); now != g.applied {
		g.program = now
	}
	delete(g.engines, m)
	if s.total > 0 {
		if g.engines == nil {
			g.engines = map[any]heapUse{}
		}
		g.engines[m] = s
	}
	g.apply()
}

// add changes the heap of an engine that has a limit by n bytes.
func (g *goLimit) add(m *memory, n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s, ok := g.engines[m]; ok {
		g.engines[m] = heapUse{s.total + n, s.engine + n, s.unlimited}
		g.apply()
	}
}

// apply sets Go's limit to the sum over the engines, or to the program's own if one of them leaves it. The caller
// holds g.mu.
func (g *goLimit) apply() {
	limit := g.program
	if len(g.engines) > 0 {
		sum, unlimited := int64(0), false
		for _, s := range g.engines {
			sum, unlimited = sum+s.total, unlimited || s.unlimited
		}
		if !unlimited {
			limit = min(limit, sum)
		}
	}
	g.applied = limit
	setMemoryLimit(limit)
}
