package testutil

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// patience is how long a test waits before it fails: far more than a slow or busy machine needs.
const patience = time.Minute

// Eventually waits until condition holds and fails the test with what was waited for when a minute did not suffice.
// A test waits with it for another goroutine, thread or process: the minute is far more than any of them needs, so
// a slow or busy machine makes the test slower and never makes it fail. The condition is called by the calling
// goroutine only, so it may use what belongs to the test. Within a bubble of testing/synctest the minute is the
// bubble's.
func Eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	if !HoldsWithin(patience, condition) {
		tb.Fatalf("waited %v in vain: %s", patience, what)
	}
}

// HoldsWithin waits until a condition holds, at most for a time, and reports whether it does. It is for conditions
// that need not come true each time, so that a test tries again: others wait with Eventually.
func HoldsWithin(limit time.Duration, condition func() bool) bool {
	for begin := time.Now(); !condition(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > limit {
			return false
		}
	}
	return true
}

// Patience returns a function that reports whether less than a minute has passed. A test that holds up a part of the
// program until another part did something stops holding it up then, so that it fails instead of hanging.
func Patience() (patient func() bool) {
	begin := time.Now()
	return func() bool { return time.Since(begin) < patience }
}

// NextFileTime waits until a change of a file gets a later time than every change before the call. File systems count
// time in steps, so that two changes in a row may get the same time. The steps are those of the directory for
// temporary files.
func NextFileTime(tb testing.TB) {
	tb.Helper()
	probe := filepath.Join(tb.TempDir(), "probe")
	written := func() int64 {
		if err := os.WriteFile(probe, []byte("x"), 0o600); err != nil {
			tb.Fatal(err)
		}
		info, err := os.Stat(probe)
		if err != nil {
			tb.Fatal(err)
		}
		return info.ModTime().UnixNano()
	}
	before := written()
	Eventually(tb, "a change of a file gets a later time", func() bool { return written() > before })
}
