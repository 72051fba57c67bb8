//go:build kernelprobe

package quant

// probePaths are the paths of amd64, whatever this processor has.
func probePaths() map[string]kernels {
	hasVNNI = true
	return map[string]kernels{"portable": portable{unfused}, "avx2": newAVX2(), "avxVNNI": avxVNNI{newAVX2()}, "avx512": newAVX512()}
}
