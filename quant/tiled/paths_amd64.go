//go:build !noasm

package tiled

import (
	"golang.org/x/sys/cpu"

	"github.com/llmrun/llmrun/quant"
)

// paths returns the paths that the processor supports, fastest first.
func paths() []kernels {
	all := []kernels{portable{}}
	x86 := &cpu.X86
	if !x86.HasAVX2 || !x86.HasFMA || !x86.HasF16C {
		return all
	}
	all = append([]kernels{avx2{}}, all...)
	if x86.HasAVXVNNI {
		all = append([]kernels{avxVNNI{}}, all...)
	}
	if x86.HasAVX512F && x86.HasAVX512BW && x86.HasAVX512VL && x86.HasAVX512DQ && x86.HasAVX512VNNI {
		all = append([]kernels{avx512{}}, all...)
		if quant.Tiles() {
			all = append([]kernels{amx{}}, all...)
		}
	}
	return all
}
