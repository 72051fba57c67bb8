//go:build !noasm

package tiled

import "github.com/llmrun/llmrun/quant"

//go:noescape
func gemvThreeAVX512(a *smallArgs)

//go:noescape
func gemvTwoAVX512(a *smallArgs)

//go:noescape
func gemvMinThreeAVX512(a *smallArgs)

//go:noescape
func gemvMinTwoAVX512(a *smallArgs)

//go:noescape
func gemvPairsThreeAVX512(a *smallArgs)

//go:noescape
func gemvPairsTwoAVX512(a *smallArgs)

//go:noescape
func gemvThreeNear512(a *smallArgs)

//go:noescape
func gemvTwoNear512(a *smallArgs)

//go:noescape
func gemvMinThreeNear512(a *smallArgs)

//go:noescape
func gemvMinTwoNear512(a *smallArgs)

//go:noescape
func gemvPairsThreeNear512(a *smallArgs)

//go:noescape
func gemvPairsTwoNear512(a *smallArgs)

//go:noescape
func gemvThreeAVX2(a *smallArgs)

//go:noescape
func gemvTwoAVX2(a *smallArgs)

//go:noescape
func gemvMinThreeAVX2(a *smallArgs)

//go:noescape
func gemvMinTwoAVX2(a *smallArgs)

//go:noescape
func gemvPairsThreeAVX2(a *smallArgs)

//go:noescape
func gemvPairsTwoAVX2(a *smallArgs)

//go:noescape
func gemvThreeVNNI(a *smallArgs)

//go:noescape
func gemvTwoVNNI(a *smallArgs)

//go:noescape
func gemvMinThreeVNNI(a *smallArgs)

//go:noescape
func gemvMinTwoVNNI(a *smallArgs)

//go:noescape
func gemvPairsThreeVNNI(a *smallArgs)

//go:noescape
func gemvPairsTwoVNNI(a *smallArgs)

func (avx512) highGEMV(t quant.Type, high Plane) func(*smallArgs) {
	return avx512Small.high[highKind{t, high}]
}

func (avx2) highGEMV(t quant.Type, high Plane) func(*smallArgs) { return avx2High[highKind{t, high}] }

func (avxVNNI) highGEMV(t quant.Type, high Plane) func(*smallArgs) {
	return vnniHigh[highKind{t, high}]
}

// highKind is a high plane of a type.
type highKind struct {
	t    quant.Type
	high Plane
}

var far512High = map[highKind]func(*smallArgs){
	{quant.Q4_0, High3}:   gemvThreeAVX512,
	{quant.Q4_0, High2}:   gemvTwoAVX512,
	{quant.IQ4_NL, High3}: gemvThreeAVX512,
	{quant.IQ4_NL, High2}: gemvTwoAVX512,
	{quant.NF4, High3}:    gemvThreeAVX512,
	{quant.NF4, High2}:    gemvTwoAVX512,
	{quant.Q4_1, High3}:   gemvMinThreeAVX512,
	{quant.Q4_1, High2}:   gemvMinTwoAVX512,
	{quant.Q4_K, High3}:   gemvPairsThreeAVX512,
	{quant.Q4_K, High2}:   gemvPairsTwoAVX512,
}

var near512High = map[highKind]func(*smallArgs){
	{quant.Q4_0, High3}:   gemvThreeNear512,
	{quant.Q4_0, High2}:   gemvTwoNear512,
	{quant.IQ4_NL, High3}: gemvThreeNear512,
	{quant.IQ4_NL, High2}: gemvTwoNear512,
	{quant.NF4, High3}:    gemvThreeNear512,
	{quant.NF4, High2}:    gemvTwoNear512,
	{quant.Q4_1, High3}:   gemvMinThreeNear512,
	{quant.Q4_1, High2}:   gemvMinTwoNear512,
	{quant.Q4_K, High3}:   gemvPairsThreeNear512,
	{quant.Q4_K, High2}:   gemvPairsTwoNear512,
}

var avx2High = map[highKind]func(*smallArgs){
	{quant.Q4_0, High3}:   gemvThreeAVX2,
	{quant.Q4_0, High2}:   gemvTwoAVX2,
	{quant.IQ4_NL, High3}: gemvThreeAVX2,
	{quant.IQ4_NL, High2}: gemvTwoAVX2,
	{quant.NF4, High3}:    gemvThreeAVX2,
	{quant.NF4, High2}:    gemvTwoAVX2,
	{quant.Q4_1, High3}:   gemvMinThreeAVX2,
	{quant.Q4_1, High2}:   gemvMinTwoAVX2,
	{quant.Q4_K, High3}:   gemvPairsThreeAVX2,
	{quant.Q4_K, High2}:   gemvPairsTwoAVX2,
}

var vnniHigh = map[highKind]func(*smallArgs){
	{quant.Q4_0, High3}:   gemvThreeVNNI,
	{quant.Q4_0, High2}:   gemvTwoVNNI,
	{quant.IQ4_NL, High3}: gemvThreeVNNI,
	{quant.IQ4_NL, High2}: gemvTwoVNNI,
	{quant.NF4, High3}:    gemvThreeVNNI,
	{quant.NF4, High2}:    gemvTwoVNNI,
	{quant.Q4_1, High3}:   gemvMinThreeVNNI,
	{quant.Q4_1, High2}:   gemvMinTwoVNNI,
	{quant.Q4_K, High3}:   gemvPairsThreeVNNI,
	{quant.Q4_K, High2}:   gemvPairsTwoVNNI,
}
