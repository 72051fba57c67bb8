package cpu

import "golang.org/x/sys/unix"

// bindThread lets the calling thread run on one processor only.
func bindThread(core int) error {
	var set unix.CPUSet
	set.Set(core)
	return unix.SchedSetaffinity(0, &set)
}
