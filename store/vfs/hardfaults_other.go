//go:build !linux && !darwin

package vfs

// HardFaults returns 0: this system does not tell.
func HardFaults() int64 { return 0 }
