//go:build !noasm

package tiled

// neon is the path of every arm64 processor. Its panels are centred: decode subtracts
// the zero point, and the integer sums of GEMM kernels start with 0. Only GEMV
// kernels read start.
//
// A SIMD product float32(i)·scale may be -0 where the portable twin adds +0 and gets
// +0; with factors, float32(i) itself may be -0. Results differ only if a sum
// underflows to -0.
//
// Tests ran these kernels under emulation, with and without the features of the
// other paths. Their speed was never measured.
type neon struct{ portable }

// neonDot is the path of processors with SDOT (FEAT_DotProd, most since 2018). neonDot
// and neonMatrix have GEMV kernels; neon multiplies a single token with its GEMM kernel.
type neonDot struct{ neon }

// neonMatrix is the path of processors with SMMLA and USDOT (FEAT_I8MM, most since 2021).
type neonMatrix struct{ neonDot }

func (neon) name() string { return "neon" }

//go:noescape
func quantizeNEON(a *quantizeArgs)

func (neon) quantize(a quantizeArgs) { quantizeNEON(&a) }

//go:noescape
func copyNEON(a *copyArgs)

func (neon) copyResults(a *copyArgs) { copyNEON(a) }
