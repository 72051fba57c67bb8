package testutil

import (
	"testing"
	"time"
)

// Eventually waits until condition holds and fails the test with what was waited for when a minute did not suffice.
// A test waits with it for another goroutine, thread or process: the minute is far more than any of them needs, so
// a slow or busy machine makes the test slower and never makes it fail. The condition is called by the calling
// goroutine only, so it may use what belongs to the test. Within a bubble of testing/synctest the minute is the
// bubble's.
func Eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	const limit, pause = time.Minute, 2 * time.Millisecond
	for begin := time.Now(); !condition(); time.Sleep(pause) {
		if time.Since(begin) > limit {
			tb.Fatalf("waited %v in vain: %s", limit, what)
		}
	}
}
