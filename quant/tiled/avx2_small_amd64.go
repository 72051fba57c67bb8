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

// fewKernel multiplies packed tiles with 2 to most tokens. For more, a panel is faster.
type fewKernel struct {
	mul  func(*smallArgs)
	most int
}

var avx2Small = map[quant.Type]fewKernel{
	quant.Q4_0:   {smallQ4AVX2, maxSmallTokens},
	quant.Q4_1:   {smallQ4MinAVX2, maxSmallTokens},
	quant.I4Z:    {smallQ4ZeroAVX2, maxSmallTokens},
	quant.Q5_0:   {smallQ5AVX2, maxSmallTokens},
	quant.Q5_1:   {smallQ5MinAVX2, maxSmallTokens},
	quant.Q4_K:   {smallPairs4AVX2, maxSmallTokens},
	quant.Q5_K:   {smallPairs5AVX2, maxSmallTokens},
	quant.MXFP4:  {smallExponentAVX2, maxSmallTokens},
	quant.IQ4_NL: {smallQ4TableAVX2, minSplitTokens - 1},
	quant.NF4:    {smallQ4TableAVX2, minSplitTokens - 1},
	quant.IQ4_XS: {smallSixAVX2, minSplitTokens - 1},
	quant.Q8_0:   {smallQ8AVX2, minSplitTokens - 1},
	quant.Q6_K:   {smallBytes6AVX2, maxSmallTokens},
}

var vnniSmall = map[quant.Type]fewKernel{
	quant.Q4_0:   {smallQ4VNNI, maxSmallTokens},
	quant.Q4_1:   {smallQ4MinVNNI, maxSmallTokens},
	quant.I4Z:    {smallQ4ZeroVNNI, maxSmallTokens},
	quant.Q5_0:   {smallQ5VNNI, maxSmallTokens},
	quant.Q5_1:   {smallQ5MinVNNI, maxSmallTokens},
	quant.Q4_K:   {smallPairs4VNNI, maxSmallTokens},
	quant.Q5_K:   {smallPairs5VNNI, maxSmallTokens},
	quant.MXFP4:  {smallExponentVNNI, maxSmallTokens},
	quant.IQ4_NL: {smallQ4TableVNNI, maxSmallTokens},
	quant.NF4:    {smallQ4TableVNNI, maxSmallTokens},
	quant.IQ4_XS: {smallSixVNNI, maxSmallTokens},
	quant.Q8_0:   {smallQ8VNNI, maxSmallTokens},
}

// few calls the kernel for several tokens, or returns false if there is none.
func (a *smallArgs) few(k fewKernel) bool {
	if k.mul == nil || a.width > tileWidth(k.most) {
		return false
	}
	a.each(k.mul)
	return true
}
