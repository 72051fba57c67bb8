package testutil

import (
	"testing"
	"time"

	"github.com/llmrun/llmrun/tiering"
)

// noise is the factor by which a time may be too long on a busy machine.
const noise = 5

// Fastest returns the least processor time of three runs: other programs and the garbage of earlier work make it
// longer, never shorter.
func Fastest(run func()) (took time.Duration) {
	for i := range 3 {
		begin := tiering.ProcessorTime()
		run()
		if now := tiering.ProcessorTime() - begin; i == 0 || now < took {
			took = now
		}
	}
	return max(took, time.Microsecond) // the clock's resolution
}

// NearlyProportional fails a test that is [Measured] if large, which does factor times the work of small, takes more
// than factor times as long by far. It allows five times that, so factor must be well above five where the defect
// is quadratic time. A factor of 1 states that both do the same work; large should then be many times as large in
// what must not matter.
func NearlyProportional(tb testing.TB, what string, factor int, small, large func()) {
	tb.Helper()
	before, after := Fastest(small), Fastest(large)
	if after > noise*time.Duration(factor)*before {
		tb.Errorf("%s: %v for one part of the work, %v for %d parts", what, before, after, factor)
	}
}
