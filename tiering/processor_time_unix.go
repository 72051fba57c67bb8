//go:build unix

package tiering

import (
	"syscall"
	"time"
)

// ProcessorTime returns for how long the threads of this process have run, those that have ended included; 0 if the
// system does not tell. The work of other programs does not lengthen it much.
func ProcessorTime() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
