package testutil

import (
	"os"
	"testing"
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
