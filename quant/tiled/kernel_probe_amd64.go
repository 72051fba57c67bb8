//go:build kernelprobe

package tiled

import "golang.org/x/sys/cpu"

// probePaths are the paths of amd64, whatever this processor has.
func probePaths() map[string]kernels {
	cpu.X86.HasAMXBF16, cpu.X86.HasAVX512VBMI = true, true
	return map[string]kernels{"portable": portable{}, "avx2": avx2{}, "avxVNNI": avxVNNI{}, "avx512": avx512{}, "amx": amx{}}
}
