package testutil

import (
	"os"
	"testing"
	"time"

	"github.com/llmrun/llmrun/tiering"
)

// Measured marks a test that measures this machine: its clock, its memory, its control groups or its disk. Such
// tests run one at a time, by make testmeasured; elsewhere Measured skips the test, because other packages' tests
// run beside it and would change what it measures. The name of the test begins with TestMeasured, which
// selects it, and it asserts orders or margins of at least five times, never a time.
func Measured(tb testing.TB) {
	tb.Helper()
	if os.Getenv("LLMRUN_TEST_MEASURED") == "" {
		tb.Skip("measures this machine: make testmeasured runs it alone")
	}
}

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

// Effort returns brief for a test that runs while a change is made, and thorough if the variable
// LLMRUN_TEST_SWEEP is set: numbers of cases, or the stride between them.
func Effort(brief, thorough int) int {
	if os.Getenv("LLMRUN_TEST_SWEEP") != "" {
		return thorough
	}
	return brief
}
