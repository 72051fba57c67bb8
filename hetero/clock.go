package hetero

import "time"

// Wall returns the monotonic clock of this machine, which all devices except
// simulated ones use.
func Wall() Clock { return wall{} }

// wall counts from program start.
type wall struct{}

var wallStart = time.Now()

func (wall) Now() time.Duration { return time.Since(wallStart) }

func (wall) Sleep(d time.Duration) { time.Sleep(d) }

const (
	grainSleeps = 8
	grainSleep  = 200 * time.Microsecond
)

// Grain measures the shortest sleep that Await may use: the largest delay by which the
// system overruns a short sleep. On a busy machine the delay is milliseconds, and Await
// then polls instead.
func Grain(c Clock) time.Duration {
	late := time.Duration(1)
	for range grainSleeps {
		begin := c.Now()
		c.Sleep(grainSleep)
		late = max(late, c.Now()-begin-grainSleep)
	}
	return late
}
