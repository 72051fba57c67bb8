package testutil

import (
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
)

// Resources counts what a process may leak besides memory. Systems without /proc/self count goroutines only.
type Resources struct {
	Goroutines, Files, Mappings int
	mapped                      string // part of the names of the files whose mappings count
}

// CountResources counts the resources of this process, with the mappings of files whose names contain mapped.
func CountResources(mapped string) Resources {
	r := Resources{Goroutines: runtime.NumGoroutine(), mapped: mapped}
	if names, err := os.ReadDir("/proc/self/fd"); err == nil {
		r.Files = len(names)
	}
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		r.Mappings = strings.Count(string(maps), mapped)
	}
	return r
}

// RequireReturned waits until the process has no more resources than r. Goroutines count for a moment after they have
// finished, and so do files that they close.
func (r Resources) RequireReturned(tb testing.TB, why string) {
	tb.Helper()
	var now Resources
	returned := func() bool {
		now = CountResources(r.mapped)
		return now.Goroutines <= r.Goroutines && now.Files <= r.Files && now.Mappings <= r.Mappings
	}
	defer func() {
		if tb.Failed() {
			tb.Logf("before: %+v, now: %+v", r, now)
		}
	}()
	Eventually(tb, why, returned)
}

// RequireFilesReturned is RequireReturned for files and mappings alone.
func (r Resources) RequireFilesReturned(tb testing.TB, why string) {
	tb.Helper()
	r.Goroutines = math.MaxInt
	r.RequireReturned(tb, why)
}

// NoGoroutinesLeft counts the goroutines and returns a check that ends the test if more goroutines run. The check
// waits, because finished goroutines count until the runtime removes them.
func NoGoroutinesLeft(t testing.TB) (check func()) {
	before := runtime.NumGoroutine()
	return func() {
		t.Helper()
		Eventually(t, "no more goroutines than before the test", func() bool { return runtime.NumGoroutine() <= before })
	}
}
