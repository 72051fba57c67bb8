package testutil

import (
	"runtime"
	"testing"
	"time"
)

// NoGoroutinesLeft counts the goroutines and returns a check that fails the test if
// more goroutines run. The check waits up to five seconds for goroutines to end.
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
