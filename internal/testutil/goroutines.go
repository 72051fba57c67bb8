package testutil

import (
	"runtime"
	"testing"
)

// NoGoroutinesLeft counts the goroutines and returns a check that ends the test if more goroutines run. The check
// waits, because finished goroutines count until the runtime removes them.
func NoGoroutinesLeft(t testing.TB) (check func()) {
	before := runtime.NumGoroutine()
	return func() {
		t.Helper()
		Eventually(t, "no more goroutines than before the test", func() bool { return runtime.NumGoroutine() <= before })
	}
}
