package cpu

import "golang.org/x/sys/unix"

// bindThread pins the calling thread to one CPU.
func bindThread(core int) error {
	var set unix.CPUSet
	set.Set(core)
	return unix.SchedSetaffinity(0, &set)
}
