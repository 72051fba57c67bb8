//go:build linux || darwin

package vfs

import "golang.org/x/sys/unix"

// HardFaults returns how many page faults of the process had to wait for a disk.
func HardFaults() int64 {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return int64(usage.Majflt)
}
