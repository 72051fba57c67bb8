package vfs

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// sleep waits as exactly as the system can. time.Sleep waits a millisecond at least where nothing else is to do, in which a
// simulated device would read another megabyte.
func sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	left := unix.NsecToTimespec(int64(d))
	for errors.Is(unix.Nanosleep(&left, &left), unix.EINTR) {
	}
}
