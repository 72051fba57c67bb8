package testutil

import (
	"runtime"
	"testing"
	"time"
)

// NoGoroutinesLeft returns what fails the test if more goroutines run than did when
// NoGoroutinesLeft was called. Those that are about to end get some time.
func NoGoroutinesLeft(t testing.TB) (check func()) {
	before := runtime.NumGoroutine()
	return func() {
		deadline := time.Now().Add(5 * time.Second)
		for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		if left := runtime.NumGoroutine() - before; left > 0 {
			t.Errorf("%d goroutines left after Close", left)
		}
	}
}
