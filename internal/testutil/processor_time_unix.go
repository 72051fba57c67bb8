//go:build unix

package testutil

import (
	"syscall"
	"time"
)

// processorTime returns the time that this process has used processors, which the work of other programs does not
// lengthen much.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
