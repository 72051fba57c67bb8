//go:build !noasm

package tiled

import "github.com/llmrun/llmrun/quant"

// avx2 is the path of processors with AVX2, FMA and F16C. A vector holds half of a
// tile's rows.
type avx2 struct{}

func (avx2) name() string { return "avx2" }

//go:noescape
func quantizeAVX2(a *quantizeArgs)

func (avx2) quantize(a quantizeArgs) { quantizeAVX2(&a) }

func (avx2) readsLanes() {}

// Products of signed tables take longer than those of a panel, whose magnitudes and signs are apart.
func (avx2) takesWholeTiles(t quant.Type) bool {
	return t != quant.IQ4_NL && t != quant.NF4 && t != quant.IQ4_XS
}

//go:noescape
func copyAVX2(a *copyArgs)

func (avx2) copyResults(a *copyArgs) { copyAVX2(a) }

// minSplitTokens is the smallest batch for which splitting codes to magnitudes and
// signs takes less time than it saves.
const minSplitTokens = 5

func (avx2) splits(f *format, tokens int) bool {
	return f.zero == signedZero && !f.halfGroups() && tokens >= minSplitTokens
}

// splitAVX2 splits the codes of a panel with zero point 128 to magnitudes and signs in
// place. starts [groups][TileRows] become startBits plus the sums of the magnitudes of
// negative codes.
//
//go:noescape
func splitAVX2(codes *uint8, starts *int32, groups int)

// pairFactorsAVX2 replaces each factor of groups, in place, by a pair of 16-bit integers.
//
//go:noescape
func pairFactorsAVX2(factors *float32, groups int)

func (avx2) decode(p *panel, f *format, blocks []byte, n int) {
	avx2Decoders.decode(p, f, blocks, n)
	if p.split {
		splitAVX2(&p.codes[0], &asInt32(p.factors)[0], n*f.groups(len(blocks)/n))
	}
	if f.halfGroups() && f.low == nil {
		pairFactorsAVX2(&p.factors[0], n*f.groups(len(blocks)/n))
	}
}

// VPMADDUBSW adds pairs of products in 16 bits, which limits the codes of each
// kernel: Plain and Mins take codes of 4 bits, those with Five up to 5 bits, Halves
// codes of 6 bits, and Signed codes with zero point 128, which it converts to signed
// bytes.

//go:noescape
func mulPlainAVX2(a *kernelArgs)

//go:noescape
func mulPlainFiveAVX2(a *kernelArgs)

//go:noescape
func mulMinsAVX2(a *kernelArgs)

//go:noescape
func mulMinsFiveAVX2(a *kernelArgs)

//go:noescape
func mulSplitAVX2(a *kernelArgs)

//go:noescape
func mulHalvesAVX2(a *kernelArgs)

//go:noescape
func mulSignedAVX2(a *kernelArgs)

//go:noescape
func mulHalvesSignedAVX2(a *kernelArgs)

func (avx2) mulPanel(a *kernelArgs) {
	switch {
	case a.mins != nil && a.nibbles:
		mulMinsAVX2(a)
	case a.mins != nil:
		mulMinsFiveAVX2(a)
	case a.halves == 2 && a.zero == signedZero:
		mulHalvesSignedAVX2(a)
	case a.halves == 2:
		mulHalvesAVX2(a)
	case a.split:
		mulSplitAVX2(a)
	case a.zero == signedZero:
		mulSignedAVX2(a)
	case a.nibbles:
		mulPlainAVX2(a)
	default:
		mulPlainFiveAVX2(a)
	}
}

// avxVNNI is the avx2 path with the 256-bit VPDPBUSD of AVX-VNNI. It accumulates in
// 32 bits, so it does not limit the codes.
type avxVNNI struct{ avx2 }

func (avxVNNI) splits(*format, int) bool { return false }

func (avxVNNI) takesWholeTiles(quant.Type) bool { return false }

//go:noescape
func mulPlainVNNI(a *kernelArgs)

//go:noescape
func mulMinsVNNI(a *kernelArgs)

//go:noescape
func mulHalvesVNNI(a *kernelArgs)

func (avxVNNI) decode(p *panel, f *format, blocks []byte, n int) {
	avx2Decoders.decode(p, f, blocks, n)
}

func (avxVNNI) mulPanel(a *kernelArgs) {
	switch {
	case a.mins != nil:
		mulMinsVNNI(a)
	case a.halves == 2 && a.zero == signedZero:
		mulHalvesSignedAVX2(a)
	case a.halves == 2:
		mulHalvesVNNI(a)
	default:
		mulPlainVNNI(a)
	}
}
