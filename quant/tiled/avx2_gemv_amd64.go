//go:build !noasm

package tiled

import "github.com/llmrun/llmrun/quant"

//go:noescape
func gemvQ4AVX2(a *smallArgs)

//go:noescape
func gemvQ4TableAVX2(a *smallArgs)

//go:noescape
func gemvExponentAVX2(a *smallArgs)

//go:noescape
func gemvQ4MinAVX2(a *smallArgs)

//go:noescape
func gemvQ4ZeroAVX2(a *smallArgs)

//go:noescape
func gemvQ5AVX2(a *smallArgs)

//go:noescape
func gemvQ5MinAVX2(a *smallArgs)

//go:noescape
func gemvQ8AVX2(a *smallArgs)

//go:noescape
func gemvPairs4AVX2(a *smallArgs)

//go:noescape
func gemvPairs5AVX2(a *smallArgs)

//go:noescape
func gemvSixAVX2(a *smallArgs)

//go:noescape
func gemvBytes6AVX2(a *smallArgs)

//go:noescape
func gemvQ4VNNI(a *smallArgs)

//go:noescape
func gemvQ4TableVNNI(a *smallArgs)

//go:noescape
func gemvExponentVNNI(a *smallArgs)

//go:noescape
func gemvQ4MinVNNI(a *smallArgs)

//go:noescape
func gemvQ4ZeroVNNI(a *smallArgs)

//go:noescape
func gemvQ5VNNI(a *smallArgs)

//go:noescape
func gemvQ5MinVNNI(a *smallArgs)

//go:noescape
func gemvQ8VNNI(a *smallArgs)

//go:noescape
func gemvPairs4VNNI(a *smallArgs)

//go:noescape
func gemvPairs5VNNI(a *smallArgs)

//go:noescape
func gemvSixVNNI(a *smallArgs)

//go:noescape
func gemvBytes6VNNI(a *smallArgs)

var avx2GEMV = map[quant.Type]func(*smallArgs){
	quant.Q4_0:   gemvQ4AVX2,
	quant.IQ4_NL: gemvQ4TableAVX2,
	quant.NF4:    gemvQ4TableAVX2,
	quant.MXFP4:  gemvExponentAVX2,
	quant.Q4_1:   gemvQ4MinAVX2,
	quant.I4Z:    gemvQ4ZeroAVX2,
	quant.Q5_0:   gemvQ5AVX2,
	quant.Q5_1:   gemvQ5MinAVX2,
	quant.Q8_0:   gemvQ8AVX2,
	quant.Q4_K:   gemvPairs4AVX2,
	quant.Q5_K:   gemvPairs5AVX2,
	quant.IQ4_XS: gemvSixAVX2,
	quant.Q6_K:   gemvBytes6AVX2,
}

var vnniGEMV = map[quant.Type]func(*smallArgs){
	quant.Q4_0:   gemvQ4VNNI,
	quant.IQ4_NL: gemvQ4TableVNNI,
	quant.NF4:    gemvQ4TableVNNI,
	quant.MXFP4:  gemvExponentVNNI,
	quant.Q4_1:   gemvQ4MinVNNI,
	quant.I4Z:    gemvQ4ZeroVNNI,
	quant.Q5_0:   gemvQ5VNNI,
	quant.Q5_1:   gemvQ5MinVNNI,
	quant.Q8_0:   gemvQ8VNNI,
	quant.Q4_K:   gemvPairs4VNNI,
	quant.Q5_K:   gemvPairs5VNNI,
	quant.IQ4_XS: gemvSixVNNI,
	quant.Q6_K:   gemvBytes6VNNI,
}

func (avx2) mulSmall(t quant.Type, a *smallArgs) bool {
	return a.gemv(avx2GEMV[t]) || a.few(avx2Small[t])
}

func (avxVNNI) mulSmall(t quant.Type, a *smallArgs) bool {
	return a.gemv(vnniGEMV[t]) || a.few(vnniSmall[t])
}

// gemv calls a GEMV kernel, or returns false if there is none or if there are several
// tokens.
func (a *smallArgs) gemv(kernel func(*smallArgs)) bool {
	if kernel == nil || a.width > 1 {
		return false
	}
	a.inPairs(kernel)
	return true
}
