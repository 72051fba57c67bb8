package testutil

import "time"

// Patience returns a function that reports whether less than a minute has passed. A test that holds up a part of the
// program until another part did something stops holding it up then, so that it fails instead of hanging. The
// minute is far more than a slow or busy machine needs.
func Patience() (patient func() bool) {
	begin := time.Now()
	return func() bool { return time.Since(begin) < time.Minute }
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
