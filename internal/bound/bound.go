// Package bound holds the oracle for parsers of files from elsewhere: whatever
// the input, they neither panic nor dawdle nor allocate out of proportion.
package bound

import (
	"runtime"
	"testing"
	"time"
)

const (
	// allocFactor and allocSlack bound what a parser may allocate in total for
	// an input of n bytes: allocFactor*n + allocSlack.
	allocFactor = 16
	allocSlack  = 1 << 20
	// maxTime is generous; inputs here are small. A machine that is busy with
	// something else can still stop a process for longer, so only what is slow
	// every time counts as slow.
	maxTime  = slowdown * time.Second
	attempts = 3
)

// Check runs parse, which opens an input of the given size, and fails the test
// when it breaks the bounds. A panic fails it by itself. Nothing else may run
// meanwhile, as allocations are counted for the whole process.
func Check(tb testing.TB, inputBytes int, parse func()) {
	tb.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	took := timed(parse)
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	if limit := uint64(allocFactor*inputBytes + allocSlack); allocated > limit {
		tb.Errorf("allocated %d bytes for an input of %d, the limit is %d", allocated, inputBytes, limit)
	}
	for i := 1; i < attempts && took > maxTime; i++ {
		took = timed(parse)
	}
	if took > maxTime {
		tb.Errorf("took %v, the limit is %v", took, maxTime)
	}
}

func timed(fn func()) time.Duration {
	start := time.Now()
	fn()
	return time.Since(start)
}
