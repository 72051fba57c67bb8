package tiering

import "sync/atomic"

var invariants atomic.Bool

// SetInvariants switches the costly self-checks on or off and returns what it
// was before. They are off by default and meant for tests: every byte that is
// released is overwritten first, so that a reader who comes too late computes
// NaNs and not yesterday's numbers.
func SetInvariants(on bool) (before bool) { return invariants.Swap(on) }

// poisonByte repeated four times is a float32 NaN and, as an integer, -1: an
// index that no slice accepts.
const poisonByte = 0xFF

// poison overwrites released memory when the invariants are on.
func poison(b []byte) {
	if !invariants.Load() {
		return
	}
	for i := range b {
		b[i] = poisonByte
	}
}
