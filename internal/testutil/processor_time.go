package testutil

import (
	"testing"
	"time"
)

// RequireProcessorTime fails a test if work takes more of the processors' time than most, which is far more than it
// needs: an algorithm of quadratic time uses it up, but other programs cannot. clock is threadpool.ProcessorTime,
// whose own tests import this package.
func RequireProcessorTime(t testing.TB, clock func() time.Duration, most time.Duration, work func()) {
	t.Helper()
	before := clock()
	work()
	if took := clock() - before; took > most {
		t.Fatalf("%v of processor time, more than %v", took, most)
	}
}
