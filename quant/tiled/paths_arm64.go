//go:build !noasm

package tiled

import (
	"golang.org/x/sys/cpu"

	"github.com/llmrun/llmrun/quant"
)

// paths returns the paths that the processor supports, fastest first. If the
// operating system does not report a feature, paths assumes that it is missing.
func paths() []kernels {
	all := []kernels{neon{}, portable{}}
	if cpu.ARM64.HasASIMDDP {
		all = append([]kernels{neonDot{}}, all...)
		if quant.HasI8MM() {
			all = append([]kernels{neonMatrix{}}, all...)
		}
	}
	return all
}
