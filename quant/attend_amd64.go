//go:build !noasm

package quant

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:noescape
func softmaxBlocksAVX512(w *BlockWeights, n int, scores, scales, state *float32, stride int, next *byte, lines int)

//go:noescape
func softmaxBlockAVX2(w *BlockWeights, scores, scales, state *float32, next *byte, lines int)

// The weighted-sum kernels compute o[q][e] = o[q][e]·decay + scale·Σ code[q][t]·values[t][e].
// weightedSum4x16AVX2 handles 4 queries and 16 elements, and the other names follow
// the same scheme. step is the distance of two pairs of tokens in bytes, stride that
// of two outputs in elements.

//go:noescape
func weightedSum4x64AVX512(o *float32, stride int, w *BlockWeights, values, next *int8, step, pairs int)

//go:noescape
func weightedSum1x64AVX512(o *float32, w *BlockWeights, values, next *int8, step, pairs int)

//go:noescape
func weightedSum4x16AVX2(o *float32, stride int, w *BlockWeights, values, next *int8, step, pairs int)

//go:noescape
func weightedSum1x16AVX2(o *float32, w *BlockWeights, values, next *int8, step, pairs int)

//go:noescape
func weightedSum4x16VNNI(o *float32, stride int, w *BlockWeights, values, next *int8, step, pairs int)

//go:noescape
func weightedSum1x16VNNI(o *float32, w *BlockWeights, values, next *int8, step, pairs int)

// hasVNNI reports whether the processor has 512-bit integer multiply-adds. Without
// them AVX-512 gains nothing here.
var hasVNNI = cpu.X86.HasAVX512VNNI

func (k avx512) softmaxBlocks(w []BlockWeights, scores []float32, scales *[BlockTokens]float32, state []float32, stride int, next []byte) {
	softmaxBlocksAVX512(&w[0], len(w), &scores[0], &scales[0], &state[0], stride, unsafe.SliceData(next), linesEach(next, len(w)))
}

// linesEach returns how many cache lines of next each of n queries prefetches.
func linesEach(next []byte, n int) int { return (len(next)/cacheLine + n - 1) / n }

func (k avx512) weightedSumBlock(o []float32, stride, d int, w []BlockWeights, values, next []int8, pairs int) {
	c := 0
	for ; hasVNNI && c+64 <= d; c += 64 {
		ahead := &next[BlockTokens/2*(d+c)] // the second half's share of these elements
		i := 0
		for ; i+4 <= len(w); i += 4 {
			weightedSum4x64AVX512(&o[i*stride+c], stride, &w[i], &values[2*c], ahead, 2*d, pairs)
		}
		for ; i < len(w); i++ {
			weightedSum1x64AVX512(&o[i*stride+c], &w[i], &values[2*c], ahead, 2*d, pairs)
		}
	}
	weightedSumFrom(k.portable, c, o, stride, d, w, values, next, pairs)
}

func (k avx2) softmaxBlocks(w []BlockWeights, scores []float32, scales *[BlockTokens]float32, state []float32, stride int, next []byte) {
	lines := linesEach(next, len(w))
	for i := range w {
		p := (*[BlockTokens]float32)(scores[i*BlockTokens:])
		ahead := next[min(i*lines*cacheLine, len(next)):]
		softmaxBlockAVX2(&w[i], &p[0], &w[i].mask(p, scales)[0], &state[i*stride], unsafe.SliceData(ahead), min(lines, len(ahead)/cacheLine))
	}
}

func (k avx2) weightedSumBlock(o []float32, stride, d int, w []BlockWeights, values, next []int8, pairs int) {
	weightedSumFrom(k.portable, 0, o, stride, d, w, values, next, pairs)
}

// weightedSumFrom weighs the elements from c on with AVX2, and portably what is less
// than a step of it.
func weightedSumFrom(twin portable, c int, o []float32, stride, d int, w []BlockWeights, values, next []int8, pairs int) {
	for ; c+16 <= d; c += 16 {
		ahead := &next[BlockTokens/2*(d+c)] // the second half's share of these elements
		i := 0
		for ; i+4 <= len(w); i += 4 {
			weightedSum4x16AVX2(&o[i*stride+c], stride, &w[i], &values[2*c], ahead, 2*d, pairs)
		}
		for ; i < len(w); i++ {
			weightedSum1x16AVX2(&o[i*stride+c], &w[i], &values[2*c], ahead, 2*d, pairs)
		}
	}
	if c < d {
		twin.weightedSumRest(c, o, stride, d, w, values, pairs)
	}
}

// The kernels of AVX-VNNI take two pairs of tokens at a time. If the number of pairs is odd, the
// last is one of tokens without a weight.
func (k avxVNNI) weightedSumBlock(o []float32, stride, d int, w []BlockWeights, values, next []int8, pairs int) {
	c := 0
	for ; c+16 <= d; c += 16 {
		ahead := &next[BlockTokens/2*(d+c)]
		i := 0
		for ; i+4 <= len(w); i += 4 {
			weightedSum4x16VNNI(&o[i*stride+c], stride, &w[i], &values[2*c], ahead, 2*d, pairs)
		}
		for ; i < len(w); i++ {
			weightedSum1x16VNNI(&o[i*stride+c], &w[i], &values[2*c], ahead, 2*d, pairs)
		}
	}
	if c < d {
		k.weightedSumRest(c, o, stride, d, w, values, pairs)
	}
}

// The kernels of AVX-512 are like those of 16 elements, for 64.

//go:noescape
func weightedSumF8x4AVX512(o *float32, stride int, w *BlockWeights, values, next *uint8, step, count int)

//go:noescape
func weightedSumF8x1AVX512(o *float32, w *BlockWeights, values, next *uint8, step, count int)

func (k avx512) weightedSumF8(o []float32, stride, d int, w []BlockWeights, values, next []uint8, count int) {
	floatWeights(&w[0], len(w))
	c := 0
	for ; c+64 <= d; c += 64 {
		i := 0
		for ; i+4 <= len(w); i += 4 {
			weightedSumF8x4AVX512(&o[i*stride+c], stride, &w[i], &values[c], &next[c], d, count)
		}
		for ; i < len(w); i++ {
			weightedSumF8x1AVX512(&o[i*stride+c], &w[i], &values[c], &next[c], d, count)
		}
	}
	weightedSumF8From(k.portable, c, o, stride, d, w, values, count)
}

func (k avx2) weightedSumF8(o []float32, stride, d int, w []BlockWeights, values, _ []uint8, count int) {
	floatWeights(&w[0], len(w))
	weightedSumF8From(k.portable, 0, o, stride, d, w, values, count)
}
