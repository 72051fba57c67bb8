//go:build !noasm

package tiled

// avx2 is the path of processors with AVX2, FMA and F16C. A vector holds half of a
// tile's rows; the GEMM kernels process one token at a time. The path has no GEMV
// kernels, because its GEMM kernel with one token already saturates memory bandwidth.
type avx2 struct{ portable }

func (avx2) name() string { return "avx2" }

//go:noescape
func quantizeAVX2(a *quantizeArgs)

func (avx2) quantize(a quantizeArgs) { quantizeAVX2(&a) }

//go:noescape
func copyAVX2(a *copyArgs)

func (avx2) copyResults(a *copyArgs) { copyAVX2(a) }

// VPMADDUBSW adds pairs of products in 16 bits, which limits the codes of each
// kernel: Plain and Mins take codes of up to 5 bits, Halves codes of 6 bits, and
// Signed codes with zero point 128, which it converts to signed bytes.

//go:noescape
func mulPlainAVX2(a *kernelArgs)

//go:noescape
func mulMinsAVX2(a *kernelArgs)

//go:noescape
func mulHalvesAVX2(a *kernelArgs)

//go:noescape
func mulSignedAVX2(a *kernelArgs)

func (avx2) mulPanel(a *kernelArgs) {
	switch {
	case a.mins != nil:
		mulMinsAVX2(a)
	case a.halves == 2:
		mulHalvesAVX2(a)
	case a.zero == signedZero:
		mulSignedAVX2(a)
	default:
		mulPlainAVX2(a)
	}
}

// avxVNNI is the avx2 path with the 256-bit VPDPBUSD of AVX-VNNI. It accumulates in
// 32 bits, so it does not limit the codes.
type avxVNNI struct{ avx2 }

//go:noescape
func mulPlainVNNI(a *kernelArgs)

//go:noescape
func mulMinsVNNI(a *kernelArgs)

//go:noescape
func mulHalvesVNNI(a *kernelArgs)

func (avxVNNI) mulPanel(a *kernelArgs) {
	switch {
	case a.mins != nil:
		mulMinsVNNI(a)
	case a.halves == 2:
		mulHalvesVNNI(a)
	default:
		mulPlainVNNI(a)
	}
}
