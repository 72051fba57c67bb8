//go:build !noasm

package quant

//go:noescape
func quantizeWeightsNEON(w *BlockWeights, p, scales *float32)

//go:noescape
func weightedSum4x16NEON(o *float32, stride int, w *BlockWeights, values *int8, step, pairs int)

//go:noescape
func weightedSum1x16NEON(o *float32, w *BlockWeights, values *int8, step, pairs int)

// splitWeights takes the codes of n queries apart for the kernels below: those of
// up to four queries, or of one, for all elements and rounds of 16 tokens.
//
//go:noescape
func splitWeights(w *BlockWeights, n int)

//go:noescape
func weightedSumDot4(o *float32, stride int, w *BlockWeights, n int, values *int8, d, rounds int)

//go:noescape
func weightedSumDot1(o *float32, w *BlockWeights, values *int8, d, rounds int)

// pairWeights is splitWeights for the kernels below, which need FEAT_I8MM: it brings the codes
// of two neighbouring queries together, or of the last query with itself.
//
//go:noescape
func pairWeights(w *BlockWeights, n int)

//go:noescape
func weightedSumMatrix4(o *float32, stride int, w *BlockWeights, n int, values *int8, d, rounds int)

//go:noescape
func weightedSumMixed1(o *float32, w *BlockWeights, values *int8, d, rounds int)

// expSumBlockNEON is expSum for a block's scores, none of which is above shift.
//
//go:noescape
func expSumBlockNEON(p *float32, shift float32) float32

// neonSoftmax is the path for scores of whole blocks, less the greatest of them.
type neonSoftmax struct{ neon }

func (neonSoftmax) expSum(p []float32 /* [BlockTokens] */, shift float32) float32 {
	return expSumBlockNEON(&p[0], shift)
}

func (k neon) softmaxBlocks(w []BlockWeights, scores []float32, scales *[BlockTokens]float32, state []float32, stride int, _ []byte) {
	softmaxEach(neonSoftmax{k}, k.ar, w, scores, scales, state, stride)
}

func (k neon) quantizeWeights(w *BlockWeights, p, scales *[BlockTokens]float32) {
	quantizeWeightsNEON(w, &p[0], &scales[0])
}

func (k neon) weightedSumBlock(o []float32, stride, d int, w []BlockWeights, values, _ []int8, pairs int) {
	const width = 16 // elements in the kernels' registers
	c := 0
	for ; c+width <= d; c += width {
		i := 0
		for ; i+4 <= len(w); i += 4 {
			weightedSum4x16NEON(&o[i*stride+c], stride, &w[i], &values[2*c], 2*d, pairs)
		}
		for ; i < len(w); i++ {
			weightedSum1x16NEON(&o[i*stride+c], &w[i], &values[2*c], 2*d, pairs)
		}
	}
	if c < d {
		k.weightedSumRest(c, o, stride, d, w, values, pairs)
	}
}

// weightedSumBlock of neonDot and of neonMatrix may weigh tokens of the last round that the
// block lacks: they have no weight.
func (k neonDot) weightedSumBlock(o []float32, stride, d int, w []BlockWeights, values, next []int8, pairs int) {
	if d%16 != 0 {
		k.neon.weightedSumBlock(o, stride, d, w, values, next, pairs)
		return
	}
	rounds := (pairs + 7) / 8
	splitWeights(&w[0], len(w))
	i := 0
	for ; i+1 < len(w); i += 4 {
		weightedSumDot4(&o[i*stride], stride, &w[i], min(4, len(w)-i), &values[0], d, rounds)
	}
	if i < len(w) {
		weightedSumDot1(&o[i*stride], &w[i], &values[0], d, rounds)
	}
}

func (k neonMatrix) weightedSumBlock(o []float32, stride, d int, w []BlockWeights, values, next []int8, pairs int) {
	if d%16 != 0 {
		k.neon.weightedSumBlock(o, stride, d, w, values, next, pairs)
		return
	}
	rounds := (pairs + 7) / 8
	pairWeights(&w[0], len(w))
	i := 0
	for ; i+1 < len(w); i += 4 {
		weightedSumMatrix4(&o[i*stride], stride, &w[i], min(4, len(w)-i), &values[0], d, rounds)
	}
	if i < len(w) {
		weightedSumMixed1(&o[i*stride], &w[i], &values[0], d, rounds)
	}
}

func (k neon) weightedSumF8(o []float32, stride, d int, w []BlockWeights, values, _ []uint8, count int) {
	floatWeights(&w[0], len(w))
	weightedSumF8From(k.portable, 0, o, stride, d, w, values, count)
}
