package tiering

import "sync/atomic"

var invariants atomic.Bool

// SetInvariants enables or disables costly checks for tests and returns the previous
// setting. By default they are disabled. With them, Free and Reset overwrite released
// memory, so that a late reader computes with NaNs instead of old values.
func SetInvariants(on bool) (before bool) { return invariants.Swap(on) }

// poisonByte repeated four times is a float32 NaN and the integer -1, an invalid
// index.
const poisonByte = 0xFF

// poison overwrites released memory if the invariants are on.
func poison(b []byte) {
	if !invariants.Load() {
		return
	}
	for i := range b {
		b[i] = poisonByte
	}
}
