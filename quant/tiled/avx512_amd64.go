//go:build !noasm

package tiled

import "github.com/llmrun/llmrun/quant"

// avx512 is the path of processors with AVX-512 VNNI. VPDPBUSD adds four byte
// products to each of sixteen 32-bit lanes; each lane belongs to one row of a tile.
type avx512 struct{}

func (avx512) name() string { return "avx512" }

//go:noescape
func quantizeAVX512(a *quantizeArgs)

func (avx512) quantize(a quantizeArgs) { quantizeAVX512(&a) }

//go:noescape
func mulPlainAVX512(a *kernelArgs)

//go:noescape
func mulMinsAVX512(a *kernelArgs)

//go:noescape
func mulHalvesAVX512(a *kernelArgs)

//go:noescape
func mulHalvesSignedAVX512(a *kernelArgs)

func (avx512) mulPanel(a *kernelArgs) {
	switch {
	case a.mins != nil:
		mulMinsAVX512(a)
	case a.halves == 2 && a.zero == signedZero:
		mulHalvesSignedAVX512(a)
	case a.halves == 2:
		mulHalvesAVX512(a)
	default:
		mulPlainAVX512(a)
	}
}

//go:noescape
func copyAVX512(a *copyArgs)

func (avx512) copyResults(a *copyArgs) { copyAVX512(a) }

func (avx512) mulSmall(t quant.Type, a *smallArgs) bool {
	return a.mulLow(avx512Decoders.lowKernel(t)) || avx512Small.mul(t, a)
}
