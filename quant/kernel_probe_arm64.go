//go:build kernelprobe

package quant

// probePaths are the paths of arm64, whatever this processor has.
func probePaths() map[string]kernels {
	base := neon{quantizer{portable{fused}}}
	return map[string]kernels{"portable": portable{unfused}, "neon": base, "neonDot": neonDot{base}, "neonMatrix": neonMatrix{neonDot{base}}}
}
