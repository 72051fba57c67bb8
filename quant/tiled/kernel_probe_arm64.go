//go:build kernelprobe

package tiled

// probePaths are the paths of arm64, whatever this processor has.
func probePaths() map[string]kernels {
	return map[string]kernels{"portable": portable{}, "neon": neon{}, "neonDot": neonDot{}, "neonMatrix": neonMatrix{}}
}
