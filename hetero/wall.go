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
