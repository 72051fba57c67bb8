package quant

import (
	"fmt"
	"math"
)

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
