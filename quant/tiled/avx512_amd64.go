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

func (avx512) mulPanel(a *kernelArgs) {
	switch {
	case a.mins != nil:
		mulMinsAVX512(a)
	case a.halves == 2:
		mulHalvesAVX512(a)
	default:
		mulPlainAVX512(a)
	}
}

//go:noescape
func copyAVX512(a *copyArgs)

func (avx512) copyResults(a *copyArgs) { copyAVX512(a) }

//go:noescape
func gemvQ4AVX512(a *smallArgs)

//go:noescape
func gemvQ4TableAVX512(a *smallArgs)

//go:noescape
func gemvExponentAVX512(a *smallArgs)

//go:noescape
func gemvQ4MinAVX512(a *smallArgs)

//go:noescape
func gemvQ4ZeroAVX512(a *smallArgs)

//go:noescape
func gemvQ5AVX512(a *smallArgs)

//go:noescape
func gemvQ5MinAVX512(a *smallArgs)

//go:noescape
func gemvQ8AVX512(a *smallArgs)

//go:noescape
func gemvPairs4AVX512(a *smallArgs)

//go:noescape
func gemvPairs5AVX512(a *smallArgs)

//go:noescape
func gemvSixAVX512(a *smallArgs)

//go:noescape
func gemvBytes6AVX512(a *smallArgs)

//go:noescape
func smallQ4AVX512(a *smallArgs)

//go:noescape
func smallQ8AVX512(a *smallArgs)

//go:noescape
func smallQ6AVX512(a *smallArgs)

//go:noescape
func smallPairs4AVX512(a *smallArgs)

//go:noescape
func smallPairs5AVX512(a *smallArgs)

// smallGEMM is mulSmall for tiles of 2, 4 or 8 tokens.
func (avx512) smallGEMM(t quant.Type, a *smallArgs) bool {
	switch t {
	case quant.Q4_0:
		a.each(smallQ4AVX512)
	case quant.Q8_0:
		a.each(smallQ8AVX512)
	case quant.Q6_K:
		a.each(smallQ6AVX512)
	case quant.Q4_K:
		a.each(smallPairs4AVX512)
	case quant.Q5_K:
		a.each(smallPairs5AVX512)
	default:
		return false
	}
	return true
}

func (p avx512) mulSmall(t quant.Type, a *smallArgs) bool {
	if a.width > 1 {
		return p.smallGEMM(t, a)
	}
	switch t {
	case quant.Q4_0:
		a.inPairs(gemvQ4AVX512)
	case quant.Q4_1:
		a.inPairs(gemvQ4MinAVX512)
	case quant.Q5_0:
		a.inPairs(gemvQ5AVX512)
	case quant.Q5_1:
		a.inPairs(gemvQ5MinAVX512)
	case quant.Q8_0:
		a.inPairs(gemvQ8AVX512)
	case quant.Q4_K:
		a.inPairs(gemvPairs4AVX512)
	case quant.Q5_K:
		a.inPairs(gemvPairs5AVX512)
	case quant.Q6_K:
		a.inPairs(gemvBytes6AVX512)
	case quant.I4Z:
		a.inPairs(gemvQ4ZeroAVX512)
	case quant.IQ4_NL, quant.NF4:
		a.inPairs(gemvQ4TableAVX512)
	case quant.IQ4_XS:
		a.inPairs(gemvSixAVX512)
	case quant.MXFP4:
		a.inPairs(gemvExponentAVX512)
	default:
		return false
	}
	return true
}
