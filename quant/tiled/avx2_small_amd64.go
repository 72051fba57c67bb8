//go:build !noasm

package tiled

import "github.com/llmrun/llmrun/quant"

//go:noescape
func smallQ4AVX2(a *smallArgs)

//go:noescape
func smallQ4MinAVX2(a *smallArgs)

//go:noescape
func smallQ4ZeroAVX2(a *smallArgs)

//go:noescape
func smallQ5AVX2(a *smallArgs)

//go:noescape
func smallQ5MinAVX2(a *smallArgs)

//go:noescape
func smallPairs4AVX2(a *smallArgs)

//go:noescape
func smallPairs5AVX2(a *smallArgs)

//go:noescape
func smallExponentAVX2(a *smallArgs)

//go:noescape
func smallQ4TableAVX2(a *smallArgs)

//go:noescape
func smallSixAVX2(a *smallArgs)

//go:noescape
func smallQ8AVX2(a *smallArgs)

//go:noescape
func smallBytes6AVX2(a *smallArgs)

//go:noescape
func smallQ4VNNI(a *smallArgs)

//go:noescape
func smallQ4MinVNNI(a *smallArgs)

//go:noescape
func smallQ4ZeroVNNI(a *smallArgs)

//go:noescape
func smallQ5VNNI(a *smallArgs)

//go:noescape
func smallQ5MinVNNI(a *smallArgs)

//go:noescape
func smallPairs4VNNI(a *smallArgs)

//go:noescape
func smallPairs5VNNI(a *smallArgs)

//go:noescape
func smallExponentVNNI(a *smallArgs)

//go:noescape
func smallQ4TableVNNI(a *smallArgs)

//go:noescape
func smallSixVNNI(a *smallArgs)

//go:noescape
func smallQ8VNNI(a *smallArgs)

// avx2Small and vnniSmall are the kernels of 2 to TileTokens tokens.
var avx2Small = map[quant.Type]func(*smallArgs){
	quant.Q4_0:   smallQ4AVX2,
	quant.Q4_1:   smallQ4MinAVX2,
	quant.I4Z:    smallQ4ZeroAVX2,
	quant.Q5_0:   smallQ5AVX2,
	quant.Q5_1:   smallQ5MinAVX2,
	quant.Q4_K:   smallPairs4AVX2,
	quant.Q5_K:   smallPairs5AVX2,
	quant.MXFP4:  smallExponentAVX2,
	quant.IQ4_NL: smallQ4TableAVX2,
	quant.NF4:    smallQ4TableAVX2,
	quant.IQ4_XS: smallSixAVX2,
	quant.Q8_0:   smallQ8AVX2,
	quant.Q6_K:   smallBytes6AVX2,
}

var vnniSmall = map[quant.Type]func(*smallArgs){
	quant.Q4_0:   smallQ4VNNI,
	quant.Q4_1:   smallQ4MinVNNI,
	quant.I4Z:    smallQ4ZeroVNNI,
	quant.Q5_0:   smallQ5VNNI,
	quant.Q5_1:   smallQ5MinVNNI,
	quant.Q4_K:   smallPairs4VNNI,
	quant.Q5_K:   smallPairs5VNNI,
	quant.MXFP4:  smallExponentVNNI,
	quant.IQ4_NL: smallQ4TableVNNI,
	quant.NF4:    smallQ4TableVNNI,
	quant.IQ4_XS: smallSixVNNI,
	quant.Q8_0:   smallQ8VNNI,
	quant.Q6_K:   smallBytes6AVX2, // unpacking codes takes longer than multiplying them
}

// few calls the kernel for several tokens, or returns false if there is none.
func (a *smallArgs) few(kernel func(*smallArgs)) bool {
	if kernel == nil {
		return false
	}
	a.each(kernel)
	return true
}
