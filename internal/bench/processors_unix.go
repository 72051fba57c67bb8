//go:build unix

package bench

import (
	"syscall"
	"time"
)

// ProcessorTime returns how long all threads of the process have computed, the
// system's work for them included.
func ProcessorTime() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
