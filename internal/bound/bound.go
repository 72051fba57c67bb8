// Package bound checks the resource use of parsers for untrusted files. For any input a
// parser must not panic, must not take long and must not allocate out of proportion to
// the input. Fuzz tests call [Check].
package bound

import (
	"runtime"
	"testing"
	"time"
)

const (
	// A parser may allocate at most allocFactor*n + allocSlack bytes for an input of n
	// bytes.
	allocFactor = 16
	allocSlack  = 1 << 20
	// maxTime is the time limit for the small inputs of fuzz tests. A busy machine may
	// delay a process for longer, so only a parser that exceeds the limit in every
	// attempt fails.
	maxTime  = slowdown * time.Second
	attempts = 3
)

// Check runs parse on an input of the given size and fails the test if parse exceeds a
// limit. Nothing else may run at the same time, because Check counts the allocations of
// the entire process.
func Check(tb testing.TB, inputBytes int, parse func()) {
	tb.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	took := timed(parse)
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	if limit := uint64(allocFactor*inputBytes + allocSlack); allocated > limit {
		tb.Errorf("allocated %d bytes for an input of %d bytes; the limit is %d bytes", allocated, inputBytes, limit)
	}
	for i := 1; i < attempts && took > maxTime; i++ {
		took = timed(parse)
	}
	if took > maxTime {
		tb.Errorf("took %v; the limit is %v", took, maxTime)
	}
}

func timed(fn func()) time.Duration {
	start := time.Now()
	fn()
	return time.Since(start)
}
