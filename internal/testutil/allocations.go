package testutil

import (
	"math"
	"runtime/debug"
	"testing"
)

// batches is how often AllocsPerRun counts before it believes that a function allocates.
const batches = 5

// AllocsPerRun returns how much calls to run allocate on average, as [testing.AllocsPerRun] does: the least of up to
// five batches of runs, of which the first with no more than enough is the last. The collector is off meanwhile.
//
// One batch can count what the runtime allocates for itself: a thread that it starts when a system call takes long,
// what its collector waits with, and the cache of a type assertion, which the runtime fills at one of about a
// thousand executions, drawn at random. These come once. What run allocates itself comes in every batch, so a batch
// has at least as many runs as a rare allocation of the work under test needs to occur, and run can be called more than
// batches*(runs+1) times.
func AllocsPerRun(runs int, enough float64, run func()) float64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	least := math.Inf(1)
	for range batches {
		if least = min(least, testing.AllocsPerRun(runs, run)); least <= enough {
			break
		}
	}
	return least
}
