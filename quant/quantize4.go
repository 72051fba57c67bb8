package quant

import (
	"encoding/binary"
	"math"
)

// Blocks of 4-bit codes are found by search: begin with a scale, round, fit the
// scale to the codes by least squares, round again, and keep the best. Elements
// count as much as their weights say. Products are converted where they are added
// to something, so that every machine finds the same block.

// fitIterations is how often scale and offset of a block are fitted to the codes
// that the last ones gave. The error hardly falls after that.
const fitIterations = 4

// shrinks are the parts of a block's range that the search begins with. A
// smaller one cuts off the outermost elements and leaves less error to the
// others.
var shrinks = [...]float32{1, 0.9, 0.8}

// block4 is a block of 4-bit codes.
type block4 struct {
	scale, offset uint16 // binary16
	codes         [groupElems]uint8
	err           float64
}

// betterThan reports whether the block has a smaller error than the best one so far, whose error is NaN before
// the first. Weights of absurd size can make an error NaN, which is no reason to take a block.
func (b *block4) betterThan(best *block4) bool { return b.err < best.err || math.IsNaN(best.err) }

// halfOf rounds a scale to a half. One beyond the largest half becomes that: an infinite scale would make NaN of
// every element of the block.
func halfOf(x float32) uint16 {
	const largest = 65504
	return F32ToF16(max(-largest, min(x, largest)))
}

// putCodes writes two codes a byte.
func (b *block4) putCodes(dst []byte /* [16] */) {
	for i := range 16 {
		dst[i] = b.codes[i] | b.codes[16+i]<<4
	}
}

// quantizeQ4_1 fits a scale and an offset.
func quantizeQ4_1(dst []byte /* [20] */, x, weight *block) {
	low, high := x[0], x[0]
	for _, v := range x {
		low, high = min(low, v), max(high, v)
	}
	var b block4
	best := block4{err: math.NaN()}
	for _, shrink := range shrinks {
		cut := (high - low) * (1 - shrink) / 2
		scale, offset := (high-low)*shrink/15, low+cut
		for range fitIterations {
			b.quantizeLine(x, weight, halfOf(scale), halfOf(offset))
			if b.betterThan(&best) {
				best = b
			}
			scale, offset = b.fitLine(x, weight, scale, offset)
		}
	}
	binary.LittleEndian.PutUint16(dst, best.scale)
	binary.LittleEndian.PutUint16(dst[2:], best.offset)
	best.putCodes(dst[4:])
}

// quantizeLine rounds a block with a scale and an offset.
func (b *block4) quantizeLine(x, weight *block, scale, offset uint16) {
	b.scale, b.offset, b.err = scale, offset, 0
	s, o := F16ToF32(scale), F16ToF32(offset)
	inverse := inverseOf(s)
	for i, v := range x {
		c := clampRound((v-o)*inverse, 0, 15)
		b.codes[i] = uint8(c)
		d := v - o - float32(s*float32(c))
		b.err += float64(weight[i] * d * d)
	}
}

// fitLine returns the scale and offset with which the codes come closest to x,
// or those given when all codes that count are the same.
func (b *block4) fitLine(x, weight *block, scale, offset float32) (float32, float32) {
	var sum, sumC, sumCC, sumX, sumCX float64
	for i, v := range x {
		w, c := float64(weight[i]), float64(b.codes[i])
		sum += w
		sumC += float64(w * c)
		sumCC += float64(w * c * c)
		sumX += float64(w * float64(v))
		sumCX += float64(w * c * float64(v))
	}
	det := float64(sum*sumCC) - float64(sumC*sumC)
	if !(det > 1e-9*sum*sumCC) {
		return scale, offset
	}
	s := (float64(sum*sumCX) - float64(sumC*sumX)) / det
	return float32(s), float32((sumX - float64(s*sumC)) / sum)
}

// codebook is what 4-bit codes stand for, times a scale.
type codebook struct {
	values [16]float32
	// nearest has the code whose value is nearest to each whole number from
	// values[0] to values[15].
	nearest []uint8
}

var (
	evenCodes = newCodebook([16]float32{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7})
	iq4Codes  = newCodebook(iq4Values)
	nf4Codes  = newCodebook(nf4Values)
)

func newCodebook(values [16]float32) *codebook {
	c := &codebook{values: values}
	code := 0
	for n := values[0]; n <= values[15]; n++ {
		for code < 15 && values[code+1]-n < n-values[code] {
			code++
		}
		c.nearest = append(c.nearest, uint8(code))
	}
	return c
}

// quantize fits a scale. The table's ends may not be equally far from zero, so
// the search begins with the element of the largest magnitude at either.
func (c *codebook) quantize(dst []byte /* [18] */, x, weight *block) {
	extreme := x[0]
	for _, v := range x {
		if math.Abs(float64(v)) > math.Abs(float64(extreme)) {
			extreme = v
		}
	}
	var b block4
	best := block4{err: math.NaN()}
	for _, end := range [...]float32{c.values[0], c.values[15]} {
		for _, shrink := range shrinks {
			scale := extreme * shrink / end
			for range fitIterations - 2 {
				c.encode(&b, x, weight, halfOf(scale))
				if b.betterThan(&best) {
					best = b
				}
				scale = c.fit(&b, x, weight, scale)
			}
		}
	}
	binary.LittleEndian.PutUint16(dst, best.scale)
	best.putCodes(dst[2:])
}

// encode rounds a block with a scale.
func (c *codebook) encode(b *block4, x, weight *block, scale uint16) {
	b.scale, b.err = scale, 0
	s := F16ToF32(scale)
	inverse := inverseOf(s)
	for i, v := range x {
		code := c.nearest[clampRound(v*inverse, c.values[0], c.values[15])-int32(c.values[0])]
		b.codes[i] = code
		d := v - float32(s*c.values[code&15])
		b.err += float64(weight[i] * d * d)
	}
}

// fit returns the scale with which the codes come closest to x, or the one given
// when no code that counts stands for anything.
func (c *codebook) fit(b *block4, x, weight *block, scale float32) float32 {
	var sumCC, sumCX float64
	for i, v := range x {
		w, value := float64(weight[i]), float64(c.values[b.codes[i]&15])
		sumCC += float64(w * value * value)
		sumCX += float64(w * value * float64(v))
	}
	if sumCC == 0 {
		return scale
	}
	return float32(sumCX / sumCC)
}
