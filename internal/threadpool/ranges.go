package threadpool

import (
	"math"
	"sync/atomic"
	"time"
)

// RangeTask is work that can be cut anywhere into ranges of units.
type RangeTask interface {
	// Range does the units [lo, hi). Like Task's Part it may be called from several
	// goroutines at once, with different workers.
	Range(lo, hi, worker int)
}

// MaxUnits is the most units that RunRange divides.
const MaxUnits = math.MaxInt32

const (
	// A worker takes half of what is left of its own home, or of somebody
	// else's: long runs of memory first, and short ones towards the end.
	claimShift = 1
	// Rates are compared in steps of 1/rateSteps of the fastest worker's, so that
	// noise moves no borders.
	rateSteps = 8
	// A rate moves by this fraction towards what was measured last.
	rateGain = 1.0 / 8
)

// core is what is known of one worker, on cache lines of its own.
type core struct {
	home atomic.Uint64 // units that are left of its own: first<<32 | end
	rate atomic.Uint64 // bits of units per nanosecond, 0 = not known yet
	_    [cacheLine - 16]byte
}

// RunRange has all units in [0, units) done, each once. Every worker begins with
// a home, a range as long as the worker was fast in recent runs, and takes part
// after part of it from the front, so that it reads memory in order. Who has
// done with his own takes from the back of whoever has most left. Parts are no
// shorter than least units where there are as many.
//
// So a core that is half as fast gets half as much from the start, and one that
// another program takes away holds the others up by a part only. Like Run it
// allocates nothing, and results must not depend on who computes what.
func (w *Pool) RunRange(units, least int, task RangeTask) {
	if units <= 0 {
		return
	}
	if units > MaxUnits {
		panic("hetero: too many units")
	}
	least = max(least, 1)
	w.ranges.Lock()
	defer w.ranges.Unlock()
	w.rangeTask, w.minUnits = task, least
	w.assignHomes(units)
	w.Run(min(w.Count(), (units+least-1)/least), w.rangePart)
}

// assignHomes divides the units among the workers' homes.
func (w *Pool) assignHomes(units int) {
	fastest := w.fastestRate()
	sum := 0
	for i := range w.cores {
		sum += w.cores[i].weight(fastest)
	}
	lo, before := 0, 0
	for i := range w.cores {
		before += w.cores[i].weight(fastest)
		hi := int(int64(units) * int64(before) / int64(sum))
		w.cores[i].home.Store(packRange(lo, hi))
		lo = hi
	}
}

// fastestRate returns the highest rate, 0 if none is known.
func (w *Pool) fastestRate() (rate float64) {
	for i := range w.cores {
		rate = max(rate, w.cores[i].currentRate())
	}
	return rate
}

// weight returns a worker's share, 1 to rateSteps.
func (c *core) weight(fastest float64) int {
	own := c.currentRate()
	if own == 0 {
		return rateSteps // nothing is known against it
	}
	return max(1, int(own/fastest*rateSteps+0.5))
}

func (c *core) currentRate() float64 { return math.Float64frombits(c.rate.Load()) }

// observe takes what a part showed into account. Only its worker calls it.
func (c *core) observe(units int, took time.Duration) {
	if took <= 0 {
		return
	}
	rate, before := float64(units)/float64(took), c.currentRate()
	if before != 0 {
		rate = before + (rate-before)*rateGain
	}
	c.rate.Store(math.Float64bits(rate))
}

// workRange does parts until none is left anywhere.
func (w *Pool) workRange(_, worker int) {
	start := time.Now()
	for from := worker; from >= 0; {
		lo, hi, ok := w.cores[from].claim(w.minUnits, from != worker)
		if !ok {
			from = w.mostLoaded()
			continue
		}
		w.rangeTask.Range(lo, hi, worker)
		now := time.Now()
		w.cores[worker].observe(hi-lo, now.Sub(start))
		start = now
	}
}

// mostLoaded returns the worker with most left, -1 when nobody has anything.
func (w *Pool) mostLoaded() int {
	who, most := -1, 0
	for i := range w.cores {
		if lo, hi := unpackRange(w.cores[i].home.Load()); hi-lo > most {
			who, most = i, hi-lo
		}
	}
	return who
}

// claim takes a part from the front of a home, or for somebody else from the back.
func (c *core) claim(least int, back bool) (lo, hi int, ok bool) {
	for {
		seen := c.home.Load()
		lo, hi = unpackRange(seen)
		if lo >= hi {
			return 0, 0, false
		}
		n := max((hi-lo)>>claimShift, min(least, hi-lo))
		if hi-lo-n < least {
			n = hi - lo // leave no crumbs
		}
		left, part := packRange(lo+n, hi), [2]int{lo, lo + n}
		if back {
			left, part = packRange(lo, hi-n), [2]int{hi - n, hi}
		}
		if c.home.CompareAndSwap(seen, left) {
			return part[0], part[1], true
		}
	}
}

func packRange(lo, hi int) uint64 { return uint64(lo)<<32 | uint64(hi) }

func unpackRange(home uint64) (lo, hi int) { return int(home >> 32), int(home & math.MaxUint32) }
