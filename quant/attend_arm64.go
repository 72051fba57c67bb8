//go:build !noasm

package quant

//go:noescape
func roundWeightsNEON(w *BlockWeights, p, scales *float32)

//go:noescape
func weigh4x16NEON(o *float32, stride int, w *BlockWeights, values *int8, step, pairs int)

//go:noescape
func weigh1x16NEON(o *float32, w *BlockWeights, values *int8, step, pairs int)

// splitWeights takes the codes of n queries apart for the kernels below: those of
// up to four queries, or of one, for all elements and rounds of 16 tokens.
//
//go:noescape
func splitWeights(w *BlockWeights, n int)

//go:noescape
func weighDot4(o *float32, stride int, w *BlockWeights, n int, values *int8, d, rounds int)

//go:noescape
func weighDot1(o *float32, w *BlockWeights, values *int8, d, rounds int)

// expSumBlockNEON is expSum for a block's scores, none of which is above shift.
//
//go:noescape
func expSumBlockNEON(p *float32, shift float32) float32

// neonSoftener is the path for scores of whole blocks, less the greatest of them.
type neonSoftener struct{ neon }

func (neonSoftener) expSum(p []float32 /* [BlockTokens] */, shift float32) float32 {
	return expSumBlockNEON(&p[0], shift)
}

func (k neon) softmaxBlocks(w []BlockWeights, scores []float32, scales *[BlockTokens]float32, state []float32, stride int, _ []byte) {
	softmaxEach(neonSoftener{k}, k.ar, w, scores, scales, state, stride)
}

func (k neon) roundWeights(w *BlockWeights, p, scales *[BlockTokens]float32) {
	roundWeightsNEON(w, &p[0], &scales[0])
}

func (k neon) weighBlock(o []float32, stride, d int, w []BlockWeights, values, _ []int8, pairs int) {
	const width = 16 // elements in the kernels' registers
	c := 0
	for ; c+width <= d; c += width {
		i := 0
		for ; i+4 <= len(w); i += 4 {
			weigh4x16NEON(&o[i*stride+c], stride, &w[i], &values[2*c], 2*d, pairs)
		}
		for ; i < len(w); i++ {
			weigh1x16NEON(&o[i*stride+c], &w[i], &values[2*c], 2*d, pairs)
		}
	}
	if c < d {
		k.weighRest(c, o, stride, d, w, values, pairs)
	}
}

// weighBlock may weigh tokens of the last round that the block lacks: they have no
// weight.
func (k neonDot) weighBlock(o []float32, stride, d int, w []BlockWeights, values, next []int8, pairs int) {
	if d%16 != 0 {
		k.neon.weighBlock(o, stride, d, w, values, next, pairs)
		return
	}
	rounds := (pairs + 7) / 8
	splitWeights(&w[0], len(w))
	i := 0
	for ; i+1 < len(w); i += 4 {
		weighDot4(&o[i*stride], stride, &w[i], min(4, len(w)-i), &values[0], d, rounds)
	}
	if i < len(w) {
		weighDot1(&o[i*stride], &w[i], &values[0], d, rounds)
	}
}

func (k neon) weighF8(o []float32, stride, d int, w []BlockWeights, values, _ []uint8, count int) {
	floatWeights(&w[0], len(w))
	weighF8From(k.portable, 0, o, stride, d, w, values, count)
}
