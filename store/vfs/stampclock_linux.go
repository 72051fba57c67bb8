package vfs

import "golang.org/x/sys/unix"

// changeTime returns the earliest time that a change of a file gets from now on, in nanoseconds since 1970.
func changeTime() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil {
		return 0 // as if the clock stood: the wait ends in any case
	}
	return now.Nano()
}
