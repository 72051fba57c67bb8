//go:build !noasm

package quant

import "golang.org/x/sys/cpu"

// hasAVXVNNI reports whether the processor has VPDPWSSD in the encoding of the build.
var hasAVXVNNI = cpu.X86.HasAVXVNNI

// supportedPaths returns the paths of this processor, best first.
func supportedPaths() []kernels {
	paths := []kernels{portable{unfused}}
	x86 := &cpu.X86
	if !x86.HasAVX2 || !x86.HasFMA || !x86.HasF16C {
		return paths
	}
	paths = append([]kernels{newAVX2()}, paths...)
	if hasAVXVNNI {
		paths = append([]kernels{avxVNNI{newAVX2()}}, paths...)
	}
	if x86.HasAVX512F && x86.HasAVX512BW && x86.HasAVX512VL && x86.HasAVX512DQ {
		paths = append([]kernels{newAVX512()}, paths...)
	}
	return paths
}
