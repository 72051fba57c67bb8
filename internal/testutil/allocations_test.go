package testutil

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAllocsPerRun counts allocations of each run, of every few runs, and of one batch alone.
func TestAllocsPerRun(t *testing.T) {
	const runs = 4
	var kept []*[64]byte
	calls, allocating := 0, func(int) bool { return false }
	count := func(enough float64) float64 {
		calls, kept = 0, make([]*[64]byte, 0, 100)
		return AllocsPerRun(runs, enough, func() {
			if allocating(calls) {
				for range runs {
					kept = append(kept, new([64]byte))
				}
			}
			calls++
		})
	}
	require.Zero(t, count(0))
	require.Equal(t, runs+1, calls, "nothing is left to find out")

	allocating = func(call int) bool { return call < 2*(runs+1) }
	require.Zero(t, count(0), "the first two batches are the runtime's")
	require.Equal(t, 3*(runs+1), calls)

	allocating = func(int) bool { return true }
	require.EqualValues(t, runs, count(0))
	require.Equal(t, batches*(runs+1), calls)
	require.EqualValues(t, runs, count(runs))
	require.Equal(t, runs+1, calls, "what suffices is not counted again")

	allocating = func(call int) bool { return call%runs == 0 }
	require.EqualValues(t, 1, count(0), "one run of every batch")
}

// TestAllocsPerRunRestoresTheCollector checks the settings within and after a count.
func TestAllocsPerRunRestoresTheCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(77))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 40))
	AllocsPerRun(1, 0, func() {
		percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(-1)
		require.Equal(t, -1, percent)
		require.EqualValues(t, math.MaxInt64, limit)
	})
	require.Equal(t, 77, debug.SetGCPercent(77))
	require.EqualValues(t, 1<<40, debug.SetMemoryLimit(-1))
}
