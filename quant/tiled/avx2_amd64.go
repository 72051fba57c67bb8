//go:build !noasm

package tiled

// avx2 is the path of processors with AVX2, FMA and F16C. Vectors take half a
// tile of rows; tokens are computed one by one. There are no vector kernels:
// a panel kernel of one token is fast enough for memory.
type avx2 struct{ portable }

func (avx2) name() string { return "avx2" }

//go:noescape
func quantizeAVX2(a *quantizeArgs)

func (avx2) quantize(a quantizeArgs) { quantizeAVX2(&a) }

//go:noescape
func copyAVX2(a *copyArgs)

func (avx2) copyResults(a *copyArgs) { copyAVX2(a) }

// The panel kernels add pairs of products in 16 bits, which limits codes: to 5
// bits, to 6 bits, or to magnitudes of at most 128 where codes are made signed.

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

// avxVNNI is the avx2 path with 256-bit VPDPBUSD, whose sums have room for all
// codes.
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
