package hetero

import "time"

// Wall returns the clock of this machine, by which all devices that are not
// simulated take time.
func Wall() Clock { return wall{} }

// wall counts from when the program began.
type wall struct{}

var wallStart = time.Now()

func (wall) Now() time.Duration { return time.Since(wallStart) }

func (wall) Sleep(d time.Duration) { time.Sleep(d) }

const (
	grainSleeps = 8
	grainSleep  = 200 * time.Microsecond
)

// Grain measures the shortest sleep that the system keeps to, for Await: by how
// much sleeps end late at most. On a busy machine that is milliseconds, and then
// looking all the time is better than sleeping.
func Grain(c Clock) time.Duration {
	late := time.Duration(1)
	for range grainSleeps {
		begin := c.Now()
		c.Sleep(grainSleep)
		late = max(late, c.Now()-begin-grainSleep)
	}
	return late
}
