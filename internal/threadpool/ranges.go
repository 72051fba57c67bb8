package threadpool

import (
	"math"
	"sync/atomic"
	"time"
)

// RangeTask is work that can be split into ranges at any unit.
type RangeTask interface {
	// Range processes the units [lo, hi). Like Task.Part it may be called from several
	// goroutines at once, with different workers.
	Range(lo, hi, worker int)
}

// MaxUnits is the largest number of units that RunRange accepts.
const MaxUnits = math.MaxInt32

const (
	// A worker claims half of the remaining units of its own home, or of the home
	// from which it steals: long ranges first, short ranges at the end.
	claimShift = 1
	// Rates are quantized to 1/rateSteps of the fastest worker's rate, so that
	// noise does not move the borders between homes.
	rateSteps = 8
	// Weight of the latest measurement in the moving average of a rate.
	rateGain = 1.0 / 8
)

// core is the state of one worker, on its own cache lines.
type core struct {
	home atomic.Uint64 // units left of the worker's home: first<<32 | end
	rate atomic.Uint64 // bits of units per nanosecond; 0: not measured yet
	_    [cacheLine - 16]byte
}

// RunRange processes every unit in [0, units) once. Every worker starts with a
// home, a range whose length is proportional to the worker's recent speed. It
// claims parts from the front of its home, so that it reads memory in order. A
// worker whose home is empty steals from the back of the home with the most units
// left. Parts have at least minUnits units, except the last of a home.
//
// A core of half the speed thus gets half the units from the start, and a core that
// another program occupies delays the others by one part only. Like Run, RunRange
// does not allocate, and results must not depend on which worker processes a part.
func (w *Pool) RunRange(units, minUnits int, task RangeTask) {
	if units <= 0 {
		return
	}
	if units > MaxUnits {
		panic("threadpool: RunRange with more than MaxUnits units")
	}
	minUnits = max(minUnits, 1)
	w.ranges.Lock()
	defer w.ranges.Unlock()
	w.rangeTask, w.minUnits = task, minUnits
	w.assignHomes(units)
	w.Run(min(w.Count(), (units+minUnits-1)/minUnits), w.rangePart)
}

// assignHomes splits the units into one home per worker.
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

// fastestRate returns the highest rate, or 0 if no rate is known.
func (w *Pool) fastestRate() (rate float64) {
	for i := range w.cores {
		rate = max(rate, w.cores[i].currentRate())
	}
	return rate
}

// weight returns the relative speed of a worker, 1 to rateSteps.
func (c *core) weight(fastest float64) int {
	own := c.currentRate()
	if own == 0 {
		return rateSteps // not measured yet: assume full speed
	}
	return max(1, int(own/fastest*rateSteps+0.5))
}

func (c *core) currentRate() float64 { return math.Float64frombits(c.rate.Load()) }

// observe updates the rate with the duration of one part. Only the core's own
// worker calls it.
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

// workRange claims and processes parts until all homes are empty.
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

// mostLoaded returns the worker with the most units left, or -1 if all homes are
// empty.
func (w *Pool) mostLoaded() int {
	worker, most := -1, 0
	for i := range w.cores {
		if lo, hi := unpackRange(w.cores[i].home.Load()); hi-lo > most {
			worker, most = i, hi-lo
		}
	}
	return worker
}

// claim takes a part from the front of a home, or from the back for another worker.
func (c *core) claim(minUnits int, back bool) (lo, hi int, ok bool) {
	for {
		seen := c.home.Load()
		lo, hi = unpackRange(seen)
		if lo >= hi {
			return 0, 0, false
		}
		n := max((hi-lo)>>claimShift, min(minUnits, hi-lo))
		if hi-lo-n < minUnits {
			n = hi - lo // avoid a remainder below the minimum
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

// packRange packs a range of units into one word, so that one atomic operation updates
// both ends.
func packRange(lo, hi int) uint64 { return uint64(lo)<<32 | uint64(hi) }

func unpackRange(home uint64) (lo, hi int) { return int(home >> 32), int(home & math.MaxUint32) }
