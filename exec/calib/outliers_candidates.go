package calib

import (
	"slices"

	"github.com/llmrun/llmrun/exec/weights"
)

// candidates are the elements of an input that may turn out to be outliers. More
// elements only ever raise the magnitude that outliers have: what is below it by now
// is forgotten.
type candidates struct {
	list    []candidate // nil: nothing is remembered
	allowed int64       // how many outliers there may be at the end
	floor   uint32      // bits of the largest magnitude that is none
	// recalled: the outliers were all remembered.
	complete bool
}

type candidate struct {
	channel uint32
	bits    uint32 // of the magnitude
}

const candidateBytes = 8

// CollectCandidates has all inputs remember their candidates, if there is room for those of a
// text of so many tokens.
func CollectCandidates(inputs []*InputMagnitudes, tokens int, share float64) bool {
	need := int64(0)
	for _, s := range inputs {
		cols := len(s.OutlierCounts)
		s.allowed = AllowedOutliers(share, cols, int64(tokens)*int64(cols))
		need += candidateBytes * s.candidates.capacity()
	}
	if need > MaxCandidateBytes {
		return false
	}
	for _, s := range inputs {
		s.list = make([]candidate, 0, s.candidates.capacity())
	}
	return true
}

// capacity is how many candidates there are at most: a quarter more than outliers, so that
// they need not be looked through for each new one.
func (c *candidates) capacity() int64 { return c.allowed + c.allowed/4 + 64 }

// add adds those of a row; bins have counted it and all rows before.
func (c *candidates) add(x []float32 /* [cols] */, bins *[magnitudeBins]int64) {
	if c.list == nil {
		return
	}
	for i, v := range x {
		bits := weights.MagnitudeBits(v)
		if bits <= c.floor {
			continue
		}
		if len(c.list) == cap(c.list) {
			c.raiseFloor(bins)
		}
		if bits > c.floor {
			c.list = append(c.list, candidate{uint32(i), bits})
		}
	}
}

// raiseFloor raises the floor as far as bins tell. No more stay than may be outliers.
func (c *candidates) raiseFloor(bins *[magnitudeBins]int64) {
	c.floor = uint32(topBin(bins, c.allowed)+1)<<binShift - 1
	c.list = slices.DeleteFunc(c.list, func(e candidate) bool { return e.bits <= c.floor })
}

// recall counts the outliers among the candidates by their channels, if none of them
// has been forgotten, and reports that.
func (c *candidates) CountCandidates(limit uint32, beyond []int64 /* [cols] */) bool {
	if c.complete = c.list != nil && limit >= c.floor; c.complete {
		for _, e := range c.list {
			if e.bits > limit {
				beyond[e.channel]++
			}
		}
	}
	c.list = nil
	return c.complete
}
