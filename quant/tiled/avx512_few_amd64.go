//go:build !noasm

package tiled

import "github.com/llmrun/llmrun/quant"

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
func gemvQ4Near512(a *smallArgs)

//go:noescape
func gemvQ4TableNear512(a *smallArgs)

//go:noescape
func gemvExponentNear512(a *smallArgs)

//go:noescape
func gemvQ4MinNear512(a *smallArgs)

//go:noescape
func gemvQ4ZeroNear512(a *smallArgs)

//go:noescape
func gemvQ5Near512(a *smallArgs)

//go:noescape
func gemvQ5MinNear512(a *smallArgs)

//go:noescape
func gemvQ8Near512(a *smallArgs)

//go:noescape
func gemvPairs4Near512(a *smallArgs)

//go:noescape
func gemvPairs5Near512(a *smallArgs)

//go:noescape
func gemvSixNear512(a *smallArgs)

//go:noescape
func gemvBytes6Near512(a *smallArgs)

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

//go:noescape
func smallQ4TableAVX512(a *smallArgs)

//go:noescape
func smallExponentAVX512(a *smallArgs)

//go:noescape
func smallSixAVX512(a *smallArgs)

//go:noescape
func smallQ4MinAVX512(a *smallArgs)

//go:noescape
func smallQ4ZeroAVX512(a *smallArgs)

//go:noescape
func smallQ5AVX512(a *smallArgs)

//go:noescape
func smallQ5MinAVX512(a *smallArgs)

//go:noescape
func smallQ4Near512(a *smallArgs)

//go:noescape
func smallQ8Near512(a *smallArgs)

//go:noescape
func smallQ6Near512(a *smallArgs)

//go:noescape
func smallPairs4Near512(a *smallArgs)

//go:noescape
func smallPairs5Near512(a *smallArgs)

//go:noescape
func smallQ4TableNear512(a *smallArgs)

//go:noescape
func smallExponentNear512(a *smallArgs)

//go:noescape
func smallSixNear512(a *smallArgs)

//go:noescape
func smallQ4MinNear512(a *smallArgs)

//go:noescape
func smallQ4ZeroNear512(a *smallArgs)

//go:noescape
func smallQ5Near512(a *smallArgs)

//go:noescape
func smallQ5MinNear512(a *smallArgs)

// smallKernels are the kernels of one token and, for 2, 4 or 8 tokens, of the formats that have such.
type smallKernels struct {
	gemv, small map[quant.Type]func(*smallArgs)
	high        map[highKind]func(*smallArgs) // of one token and a high plane
}

// avx512Small are those of this processor. AMD's have kernels that prefetch to the first-level
// cache. Others have those that were tuned on one of Intel's.
var avx512Small = pickSmall(isAMD())

var (
	far512 = smallKernels{far512GEMV, map[quant.Type]func(*smallArgs){
		quant.Q4_0:   smallQ4AVX512,
		quant.Q8_0:   smallQ8AVX512,
		quant.Q6_K:   smallQ6AVX512,
		quant.Q4_K:   smallPairs4AVX512,
		quant.Q5_K:   smallPairs5AVX512,
		quant.IQ4_NL: smallQ4TableAVX512,
		quant.NF4:    smallQ4TableAVX512,
		quant.MXFP4:  smallExponentAVX512,
		quant.IQ4_XS: smallSixAVX512,
		quant.Q4_1:   smallQ4MinAVX512,
		quant.I4Z:    smallQ4ZeroAVX512,
		quant.Q5_0:   smallQ5AVX512,
		quant.Q5_1:   smallQ5MinAVX512,
	}, far512High}
	near512 = smallKernels{near512GEMV, map[quant.Type]func(*smallArgs){
		quant.Q4_0:   smallQ4Near512,
		quant.Q8_0:   smallQ8Near512,
		quant.Q6_K:   smallQ6Near512,
		quant.Q4_K:   smallPairs4Near512,
		quant.Q5_K:   smallPairs5Near512,
		quant.IQ4_NL: smallQ4TableNear512,
		quant.NF4:    smallQ4TableNear512,
		quant.MXFP4:  smallExponentNear512,
		quant.IQ4_XS: smallSixNear512,
		quant.Q4_1:   smallQ4MinNear512,
		quant.I4Z:    smallQ4ZeroNear512,
		quant.Q5_0:   smallQ5Near512,
		quant.Q5_1:   smallQ5MinNear512,
	}, near512High}
)

func pickSmall(near bool) *smallKernels {
	if near {
		return &near512
	}
	return &far512
}

// mul is mulSmall.
func (k *smallKernels) mul(t quant.Type, a *smallArgs) bool {
	if a.width == 1 {
		return a.gemv(k.gemv[t])
	}
	return a.few(k.small[t])
}

var far512GEMV = map[quant.Type]func(*smallArgs){
	quant.Q4_0:   gemvQ4AVX512,
	quant.IQ4_NL: gemvQ4TableAVX512,
	quant.NF4:    gemvQ4TableAVX512,
	quant.MXFP4:  gemvExponentAVX512,
	quant.Q4_1:   gemvQ4MinAVX512,
	quant.I4Z:    gemvQ4ZeroAVX512,
	quant.Q5_0:   gemvQ5AVX512,
	quant.Q5_1:   gemvQ5MinAVX512,
	quant.Q8_0:   gemvQ8AVX512,
	quant.Q4_K:   gemvPairs4AVX512,
	quant.Q5_K:   gemvPairs5AVX512,
	quant.IQ4_XS: gemvSixAVX512,
	quant.Q6_K:   gemvBytes6AVX512,
}

var near512GEMV = map[quant.Type]func(*smallArgs){
	quant.Q4_0:   gemvQ4Near512,
	quant.IQ4_NL: gemvQ4TableNear512,
	quant.NF4:    gemvQ4TableNear512,
	quant.MXFP4:  gemvExponentNear512,
	quant.Q4_1:   gemvQ4MinNear512,
	quant.I4Z:    gemvQ4ZeroNear512,
	quant.Q5_0:   gemvQ5Near512,
	quant.Q5_1:   gemvQ5MinNear512,
	quant.Q8_0:   gemvQ8Near512,
	quant.Q4_K:   gemvPairs4Near512,
	quant.Q5_K:   gemvPairs5Near512,
	quant.IQ4_XS: gemvSixNear512,
	quant.Q6_K:   gemvBytes6Near512,
}

// vendor returns the first four letters of the processor's vendor.
func vendor() uint32

// isAMD reports whether AMD made the processor: "AuthenticAMD".
func isAMD() bool { return vendor() == 'A'|'u'<<8|'t'<<16|'h'<<24 }
