package calib

import (
	"slices"

	"github.com/llmrun/llmrun/exec/weights"
)

// candidates are the elements of an input that may turn out to be outliers. More
// observations only raise the outlier threshold, so elements below the current one are
// dropped.
type candidates struct {
	list    []candidate // nil: candidates are not collected
	allowed int64       // maximum number of outliers at the end
	floor   uint32      // bits of the largest magnitude that is no candidate
	// complete: the list contained all outliers.
	complete bool
}

type candidate struct {
	channel uint32
	bits    uint32 // of the magnitude
}

const candidateBytes = 8

// CollectCandidates makes all inputs collect candidates, if MaxCandidateBytes suffices for
// a text of a number of tokens. It reports whether it does.
func CollectCandidates(inputs []*InputMagnitudes, tokens int, fraction float64) bool {
	need := int64(0)
	for _, s := range inputs {
		cols := len(s.OutlierCounts)
		s.allowed = AllowedOutliers(fraction, cols, int64(tokens)*int64(cols))
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

// capacity returns the maximum number of candidates: a quarter more than outliers, so that
// the list is pruned rarely.
func (c *candidates) capacity() int64 { return c.allowed + c.allowed/4 + 64 }

// add adds the candidates of a row, which bins include already.
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

// raiseFloor raises the floor to the threshold that bins imply and drops candidates. At
// most allowed remain.
func (c *candidates) raiseFloor(bins *[magnitudeBins]int64) {
	c.floor = uint32(topBin(bins, c.allowed)+1)<<binShift - 1
	c.list = slices.DeleteFunc(c.list, func(e candidate) bool { return e.bits <= c.floor })
}

// CountCandidates counts the outliers among the candidates by channel, and reports whether
// the candidates contain all outliers. It frees the list.
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
