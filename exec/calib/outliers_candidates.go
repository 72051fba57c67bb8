package calib

import (
	"slices"

	"github.com/llmrun/llmrun/exec/weights"
)

// candidates are the elements of an input that may turn out to be outliers. More
// elements only ever raise the magnitude that outliers have: what is below it by now
// is forgotten.
type candidates struct {
	seen    []candidate // nil: nothing is remembered
	allowed int64       // how many outliers there may be at the end
	floor   uint32      // bits of the largest magnitude that is none
	// recalled: the outliers were all remembered.
	recalled bool
}

type candidate struct {
	channel uint32
	bits    uint32 // of the magnitude
}

const candidateBytes = 8

// Remember has all inputs remember their candidates, if there is room for those of a
// text of so many tokens.
func Remember(inputs []*InputSizes, tokens int, share float64) bool {
	need := int64(0)
	for _, s := range inputs {
		cols := len(s.Beyond)
		s.allowed = OutliersAllowed(share, cols, int64(tokens)*int64(cols))
		need += candidateBytes * s.candidates.room()
	}
	if need > OutlierRoom {
		return false
	}
	for _, s := range inputs {
		s.seen = make([]candidate, 0, s.candidates.room())
	}
	return true
}

// room is how many candidates there are at most: a quarter more than outliers, so that
// they need not be looked through for each new one.
func (c *candidates) room() int64 { return c.allowed + c.allowed/4 + 64 }

// remember adds those of a row; bins have counted it and all rows before.
func (c *candidates) remember(x []float32 /* [cols] */, bins *[magnitudeBins]int64) {
	if c.seen == nil {
		return
	}
	for i, v := range x {
		bits := weights.MagnitudeBits(v)
		if bits <= c.floor {
			continue
		}
		if len(c.seen) == cap(c.seen) {
			c.forget(bins)
		}
		if bits > c.floor {
			c.seen = append(c.seen, candidate{uint32(i), bits})
		}
	}
}

// forget raises the floor as far as bins tell. No more stay than may be outliers.
func (c *candidates) forget(bins *[magnitudeBins]int64) {
	c.floor = uint32(topBin(bins, c.allowed)+1)<<binShift - 1
	c.seen = slices.DeleteFunc(c.seen, func(e candidate) bool { return e.bits <= c.floor })
}

// recall counts the outliers among the candidates by their channels, if none of them
// has been forgotten, and reports that.
func (c *candidates) Recall(limit uint32, beyond []int64 /* [cols] */) bool {
	if c.recalled = c.seen != nil && limit >= c.floor; c.recalled {
		for _, e := range c.seen {
			if e.bits > limit {
				beyond[e.channel]++
			}
		}
	}
	c.seen = nil
	return c.recalled
}
