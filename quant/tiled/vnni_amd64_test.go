//go:build vnni && !noasm

package tiled

import (
	"golang.org/x/sys/cpu"

	"github.com/llmrun/llmrun/quant"
)

// With the build tag vnni and AVX512VL_VNNI defined for the assembler, a machine with
// AVX-512 tests the kernels of AVX-VNNI in another encoding: make testvnni. With
// LLMRUN_CPU=avx2, they are the active path, also in benchmarks.
func init() {
	if !cpu.X86.HasAVX512VL || !cpu.X86.HasAVX512VNNI {
		return
	}
	morePaths = append(morePaths, avxVNNI{})
	if quant.Features() == (avx2{}).name() {
		active = avxVNNI{}
	}
}
