//go:build vnni && !noasm

package quant

import (
	"os"

	"golang.org/x/sys/cpu"
)

// With the build tag vnni and AVX512VL_VNNI defined for the assembler, a machine with AVX-512 tests
// the kernels of AVX-VNNI in another encoding: make testvnni.
func init() {
	hasAVXVNNI = cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VNNI
	active = choose(os.Getenv("LLMRUN_CPU"))
}
