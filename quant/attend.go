package quant

import (
	"fmt"
	"math"
)

// Attention over values in 8 bits works on blocks of BlockTokens tokens. What a
// query makes of a block are weights that are rounded to 16 bits, relative to
// the greatest of them, and sums of products of integers:
//
//	m    = the greatest of the scores that count and of those before
//	p[j] = Exp32(score[j] - m), 0 where a token does not count
//	sum  = sum·decay + Σ p[j]                 (16 lanes by index, then the tree)
//	w[j] = p[j]·scale of value j              (a value is scale·code)
//	c[j] = round(w[j]·(32767/a))              halves to even; a is the greatest w
//	o[d] = mulAdd(Σ c[j]·code[j][d], a/32767, o[d]·decay)
//
// where decay = Exp32(m before - m). Values have an error of up to a 254th of
// the largest element; rounding the weights adds less than a 32767th of what the
// token with the greatest weight contributes, for each token, and makes the
// inner loop one of integers: exact in any order, and on AVX-512 two tokens in
// one instruction without a conversion to floats. Sums have room: 64 products of
// 32767 and 128 make less than 2^29.

// BlockTokens is the number of tokens in a block.
const BlockTokens = 64

// maxWeight is the code of the greatest weight in a block.
const maxWeight = 32767

// minWeightBits are the bits of 2^-100. If all weights of a block are smaller, they
// count as zero, because the quotient 32767/a could overflow.
const minWeightBits = (127 - 100) << 23

// BlockWeights is what one query makes of a block of scores.
type BlockWeights struct {
	Codes [BlockTokens]int16
	// Attended has a bit for each token that counts, the first token's the lowest.
	Attended uint64
	Scale    float32 // what a code of one stands for
	Decay    float32 // what is left of the sums before
	// floats is scratch memory of the kernels: first the masked scores on paths
	// without mask registers, then the codes as float32 for 8-bit float values, or
	// the codes split into bytes for dot-product kernels.
	floats [BlockTokens]float32
}

// SoftmaxBlocks turns each query's scores of a block into weights of its values, for
// the tokens whose bit is set in BlockWeights.Attended. Scores and scales of other
// tokens may have any value. state holds for each query the greatest score and the
// sum so far; queries are stride elements apart. The kernels prefetch next, which
// may be empty.
func SoftmaxBlocks(w []BlockWeights, scores []float32 /* [len(w), BlockTokens] */, scales []float32 /* [BlockTokens] */, state []float32 /* [len(w), stride] */, stride int, next []byte) {
	if len(w) == 0 {
		return
	}
	if len(scores) < len(w)*BlockTokens || len(scales) < BlockTokens || len(state) < (len(w)-1)*stride+2 || stride < 2 {
		panic(fmt.Sprintf("quant: softmax of %d queries exceeds its slices", len(w)))
	}
	active.softmaxBlocks(w, scores, (*[BlockTokens]float32)(scales), state, stride, next)
}

// WeightedSumBlock adds a block's values to the outputs of some queries, after what
// was there has decayed. Values are interleaved in pairs of tokens; those of
// tokens from count on may be anything, they must have no weight. Reading the
// second half of next, the block that will follow, is begun on the way.
func WeightedSumBlock(o []float32 /* [len(w), stride] */, stride, d int, w []BlockWeights, values, next []int8 /* [BlockTokens/2, d, 2] */, count int) {
	if len(w) == 0 || d <= 0 {
		return
	}
	if len(o) < (len(w)-1)*stride+d || min(len(values), len(next)) < BlockTokens*d || count < 1 || count > BlockTokens {
		panic(fmt.Sprintf("quant: weighing %d values of %d elements for %d queries exceeds its slices", count, d, len(w)))
	}
	active.weightedSumBlock(o, stride, d, w, values, next, (count+1)/2)
}

func (k portable) softmaxBlocks(w []BlockWeights, scores []float32, scales *[BlockTokens]float32, state []float32, stride int, _ []byte) {
	softmaxEach(k, k.ar, w, scores, scales, state, stride)
}

// softmaxKernels is what a path without a kernel for all of softmax does fast.
type softmaxKernels interface {
	maxOf(p []float32) float32
	expSum(p []float32, shift float32) float32
	quantizeWeights(w *BlockWeights, p, scales *[BlockTokens]float32)
}

// softmaxEach is SoftmaxBlocks, a query after the other.
func softmaxEach(k softmaxKernels, ar arith, w []BlockWeights, scores []float32, scales *[BlockTokens]float32, state []float32, stride int) {
	for i := range w {
		p := (*[BlockTokens]float32)(scores[i*BlockTokens:])
		w[i].softmax(k, ar, p, w[i].mask(p, scales), (*[2]float32)(state[i*stride:]))
	}
}

// mask makes the scores of tokens that do not count -Inf and returns the scales
// with those of such tokens zero.
func (w *BlockWeights) mask(p, scales *[BlockTokens]float32) *[BlockTokens]float32 {
	if w.Attended == math.MaxUint64 {
		return scales
	}
	for j := range p {
		w.floats[j] = scales[j]
		if w.Attended>>j&1 == 0 {
			p[j], w.floats[j] = float32(math.Inf(-1)), 0
		}
	}
	return &w.floats
}

// softmax is SoftmaxBlocks for one query, without tokens that do not count.
func (w *BlockWeights) softmax(k softmaxKernels, ar arith, p, scales *[BlockTokens]float32, state *[2]float32) {
	top := state[0]
	if m := k.maxOf(p[:]); m > top {
		top = m
	}
	shift := top
	if math.IsInf(float64(top), -1) {
		shift = 0 // nothing counts, or NaNs
	}
	sum := k.expSum(p[:], shift)
	w.Decay = 1 // mostly the maximum stays
	if state[0] != top {
		w.Decay = ar.exp(state[0] - shift)
	}
	state[0], state[1] = top, ar.mulAdd(state[1], w.Decay, sum)
	k.quantizeWeights(w, p, scales)
}

// quantizeWeights weighs the scales and rounds the products.
func (portable) quantizeWeights(w *BlockWeights, p, scales *[BlockTokens]float32) {
	var bits uint32
	for j := range p {
		p[j] *= scales[j]
		bits = max(bits, math.Float32bits(p[j])&^(1<<31))
	}
	most := math.Float32frombits(bits)
	w.Scale = most * (1.0 / maxWeight)
	if bits < minWeightBits {
		w.Scale = 0
	}
	if bits < minWeightBits || bits >= infinityBits { // no result will be finite
		clear(w.Codes[:])
		return
	}
	inverse := maxWeight / most
	for j, v := range p {
		w.Codes[j] = int16(roundEven(float32(v * inverse)))
	}
}

// roundEven rounds a number of less than 2^22 to the nearest integer, halves to
// even: adding roundMagic leaves no room for a fraction.
func roundEven(x float32) int32 { return int32(float32(x+roundMagic) - roundMagic) }

func (k portable) weightedSumBlock(o []float32, stride, d int, w []BlockWeights, values, _ []int8, pairs int) {
	k.weightedSumRest(0, o, stride, d, w, values, pairs)
}

// weightedSumRest is weightedSumBlock for the elements from c on.
func (k portable) weightedSumRest(c int, o []float32, stride, d int, w []BlockWeights, values []int8, pairs int) {
	for i := range w {
		k.weightedSumQuery(o[i*stride+c:i*stride+d], &w[i], values[2*c:], 2*d, pairs)
	}
}

// weightedSumQuery is weightedSumBlock for one query and some neighbouring elements. The
// elements of a pair begin step bytes behind those of the pair before.
func (k portable) weightedSumQuery(o []float32, w *BlockWeights, values []int8, step, pairs int) {
	var sums [64]int32
	for from := 0; from < len(o); from += len(sums) {
		out := o[from:min(from+len(sums), len(o))]
		clear(sums[:])
		for j := range pairs {
			a, b := int32(w.Codes[2*j]), int32(w.Codes[2*j+1])
			if a|b == 0 {
				continue
			}
			pair := values[j*step+2*from:][:2*len(out)]
			for c := range out {
				sums[c] += a*int32(pair[2*c]) + b*int32(pair[2*c+1])
			}
		}
		for c, v := range out {
			out[c] = k.ar.mulAdd(float32(sums[c]), w.Scale, float32(v*w.Decay))
		}
	}
}

// Values of 8-bit floats have the sign, the four bits of exponent and the three
// of mantissa of e4m3. A code is read as the binary16 number whose uppermost
// exponent bit is missing:
//
//	value(code) = F16ToF32(sign<<8 | (code&127)<<7)
//
// which is that of e4m3 divided by 256, exactly, and for which every processor
// has a conversion. The largest is 1.75; the pattern that e4m3 keeps for NaN is
// never written. What a query makes of a block are, with the 16-bit weights c of
// SoftmaxBlocks,
//
//	t    = Σ float32(c[j])·value(code[j][d])      tokens in ascending order
//	o[d] = mulAdd(t, a/32767, o[d]·decay)
//
// A product has at most 19 bits and is exact, so that t is the same fused or not.

// f8Largest is the value of the largest code.
const f8Largest = 1.75

// f8Values are the values of all codes.
var f8Values = func() (values [256]float32) {
	for code := range values {
		values[code] = F16ToF32(uint16(code&0x80)<<8 | uint16(code&0x7f)<<7)
	}
	return values
}()

// F8ToF32 returns the value of a code of 8 bits: that of e4m3 over 256.
func F8ToF32(code uint8) float32 { return f8Values[code] }

// WeightedSumBlockF8 is WeightedSumBlock for values in 8-bit floats, token after token.
func WeightedSumBlockF8(o []float32 /* [len(w), stride] */, stride, d int, w []BlockWeights, values, next []uint8 /* [BlockTokens, d] */, count int) {
	if len(w) == 0 || d <= 0 {
		return
	}
	if len(o) < (len(w)-1)*stride+d || min(len(values), len(next)) < BlockTokens*d || count < 1 || count > BlockTokens {
		panic(fmt.Sprintf("quant: weighing %d 8-bit floats of %d elements for %d queries exceeds its slices", count, d, len(w)))
	}
	active.weightedSumF8(o, stride, d, w, values, next, count)
}

func (k portable) weightedSumF8(o []float32, stride, d int, w []BlockWeights, values, _ []uint8, count int) {
	k.weightedSumF8Rest(0, o, stride, d, w, values, count)
}

// weightedSumF8Rest is weightedSumF8 for the elements from c on.
func (k portable) weightedSumF8Rest(c int, o []float32, stride, d int, w []BlockWeights, values []uint8, count int) {
	for i := range w {
		k.weightedSumF8Query(o[i*stride+c:i*stride+d], &w[i], values[c:], d, count)
	}
}

// weightedSumF8Query is weightedSumF8 for one query and some neighbouring elements. The
// elements of a token begin step bytes behind those of the token before.
func (k portable) weightedSumF8Query(o []float32, w *BlockWeights, values []uint8, step, count int) {
	var sums [64]float32
	for from := 0; from < len(o); from += len(sums) {
		out := o[from:min(from+len(sums), len(o))]
		clear(sums[:])
		for j := range count {
			weight := float32(w.Codes[j])
			if weight == 0 {
				continue
			}
			for c, code := range values[j*step+from:][:len(out)] {
				sums[c] += float32(weight * f8Values[code])
			}
		}
		for c, v := range out {
			out[c] = k.ar.mulAdd(sums[c], w.Scale, float32(v*w.Decay))
		}
	}
}

// encodeF8 rounds a number of at most f8Largest to the nearest code, halves to
// even.
func encodeF8(x float32) uint8 {
	bits := math.Float32bits(x)
	sign, size := uint8(bits>>24)&0x80, bits&^(1<<31)
	if size < f8NormalBits {
		// The sum's last bit stands for the smallest code.
		aligned := math.Float32frombits(size) + f8Align
		return sign | uint8(math.Float32bits(aligned)-f8AlignBits)
	}
	return sign | uint8((size+0x7ffff+size>>20&1)>>20-f8Rebias)
}

const (
	f8NormalBits = (127 - 14) << 23 // of 2^-14, below which codes are evenly spaced
	f8Align      = 0x1p6            // its last bit is 2^-17, what the smallest code stands for
	f8AlignBits  = (127 + 6) << 23  // of f8Align
	f8Rebias     = (127 - 15) << 3
)
