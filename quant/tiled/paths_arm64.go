//go:build !noasm

package tiled

import "golang.org/x/sys/cpu"

// paths returns the paths that this machine has, best first. Features that an
// operating system does not report are taken to be missing.
func paths() []kernels {
	all := []kernels{neon{}, portable{}}
	if cpu.ARM64.HasASIMDDP {
		all = append([]kernels{neonDot{}}, all...)
		if hasI8MM() {
			all = append([]kernels{neonMatrix{}}, all...)
		}
	}
	return all
}
