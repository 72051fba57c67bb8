package tiering

import (
	"runtime/debug"
	"runtime/metrics"
)

// Growth measures by how much this process grows while code outside Go runs, such as a device's
// driver, which allocates memory that no ledger counts. Other engines that load weights at the same
// moment are counted with it.
type Growth struct {
	before Resident
	heap   int64
}

// BeginGrowth begins a measurement. It returns garbage to the system.
func BeginGrowth() Growth {
	debug.FreeOSMemory()
	return Growth{ReadResident(SystemRoot()), mappedHeap()}
}

// End returns how many bytes more than at the beginning the process holds, without Go's heap, and
// how many it held at most, with it. The peak is not known where the process has held more before:
// then it does not raise the maximum of the process either, and End returns the bytes held now. Both
// are 0 on systems that do not tell.
func (g Growth) End() (held, peak int64) {
	debug.FreeOSMemory()
	after := ReadResident(SystemRoot())
	held = max(0, after.Now-g.before.Now-max(0, mappedHeap()-g.heap))
	if peak = held; after.Peak > g.before.Peak {
		peak = max(held, after.Peak-g.before.Now)
	}
	return held, peak
}

// mappedHeap returns the memory of Go's runtime that it has not returned to the system.
func mappedHeap() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}
