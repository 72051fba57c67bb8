package quant

import (
	"math"
	"slices"
)

// argMaxBlock is the number of elements in a block of ArgMax, which scans the block
// with the maximum twice: larger blocks make the second scan longer, smaller blocks
// make more calls.
const argMaxBlock = 1024

// ArgMax returns the index of the greatest element, the first among equals. NaNs do
// not count; it is -1 if nothing is above -Inf.
func ArgMax(x []float32 /* [n] */) int {
	at, top := -1, float32(math.Inf(-1))
	for begin := 0; begin < len(x); begin += argMaxBlock {
		if m := active.maxOf(x[begin:min(begin+argMaxBlock, len(x))]); m > top {
			at, top = begin, m
		}
	}
	if at < 0 {
		return -1
	}
	return at + slices.Index(x[at:], top)
}

// AllFinite reports whether no element is an infinity or a NaN.
func AllFinite(x []float32 /* [n] */) bool { return active.largestBits(x) < infinityBits }

// infinityBits are those of an infinity without its sign. NaNs have more.
const infinityBits = 0x7F800000
