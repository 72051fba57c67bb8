//go:build unix

package threadpool

import (
	"syscall"
	"time"
)

// ProcessorTime returns the processor time of all threads of the process, in user and system mode.
func ProcessorTime() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
