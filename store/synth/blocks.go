package synth

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/llmrun/llmrun/quant"
)

// filler fills p, which is whole blocks of one type, with random blocks.
type filler func(src *source, p []byte)

// blockRecipe describes how to make random blocks of a quantized type whose codes may be
// any bits.
type blockRecipe struct {
	std         float64 // standard deviation of the elements at scale 1, over all codes and sub-scales
	scaleOffset int     // offset of the scale, a binary16, in a block
	// minimum is the ratio of the minimum (or the scale of minima), which follows the scale
	// in the block, to the scale. It centers the elements. 0 means that the type has none.
	minimum float64
	signed  bool // choose the sign of the scale at random, which centers codes from -8 to 7
}

// recipes holds standard deviations derived from the definitions of the types. For Q4_K an
// element is d·s·q - dmin·m, with s and m from 0 to 63 and q from 0 to 15: with dmin =
// 7.5·d the mean is 0, and the variance E[s²]E[q²] - E[s]²E[q]² + 7.5²·Var[m] is 258.3².
var recipes = map[quant.Type]blockRecipe{
	quant.Q4_0: {std: 4.637, signed: true},
	quant.Q5_0: {std: 9.247, signed: true},
	quant.Q5_1: {std: 9.233, minimum: -15.5, signed: true},
	quant.Q8_0: {std: 73.9, signed: true},
	quant.Q4_K: {std: 258.3, minimum: 7.5},
	quant.Q5_K: {std: 526.9, minimum: 15.5},
	quant.Q6_K: {std: 1365.7, scaleOffset: 208, signed: true},
	quant.Q2_K: {std: 13.874, scaleOffset: 80, minimum: 1.5},
	// The code books of these are tables, so these deviations are measured, over random codes.
	quant.IQ4_NL:  {std: 67.4, signed: true},
	quant.IQ2_XS:  {std: 56.0},
	quant.IQ2_S:   {std: 56.4},
	quant.IQ3_XXS: {std: 142.4},
	quant.IQ3_S:   {std: 139.8},
}

// newFiller returns a filler for elements with the standard deviation std.
func newFiller(t quant.Type, std float64) (filler, error) {
	switch t {
	case quant.F16:
		return floatFiller(std, 10, 15), nil
	case quant.BF16:
		return floatFiller(std, 7, 127), nil
	case quant.MXFP4:
		return mxFiller(std), nil
	}
	r, ok := recipes[t]
	if !ok {
		return nil, fmt.Errorf("synth: random blocks of type %v are not implemented", t)
	}
	codes := (*source).bytes
	if t == quant.Q8_0 {
		codes = symmetricBytes
	}
	return r.filler(t.BlockBytes(), std, codes), nil
}

// scaleSteps is the number of different scales, all within 25 % of the mean.
const scaleSteps = 16

// filler returns a filler for blocks of blockBytes whose elements have the standard
// deviation std. codes fills the random bits.
func (r blockRecipe) filler(blockBytes int, std float64, codes filler) filler {
	var scales, minima [scaleSteps]uint16
	for i := range scales {
		scale := std / r.std * (0.75 + 0.5*float64(i)/(scaleSteps-1))
		scales[i] = quant.F32ToF16(float32(scale))
		minima[i] = quant.F32ToF16(float32(scale * r.minimum))
	}
	return func(src *source, p []byte) {
		codes(src, p)
		for ; len(p) > 0; p = p[blockBytes:] {
			// The random bits at the position of the scale select it.
			at := p[r.scaleOffset:]
			bits := binary.LittleEndian.Uint16(at)
			sign := uint16(0)
			if r.signed {
				sign = bits & 0x8000
			}
			binary.LittleEndian.PutUint16(at, scales[bits%scaleSteps]^sign)
			if r.minimum != 0 {
				binary.LittleEndian.PutUint16(at[2:], minima[bits%scaleSteps]^sign)
			}
		}
	}
}

// mxFiller makes blocks of MXFP4. Their scales are powers of two, so blocks have two scales, as many
// of each as give the standard deviation.
func mxFiller(std float64) filler {
	const codesStd = 2.926 // standard deviation of the numbers of 4 bits
	exponent := math.Floor(math.Log2(std / codesStd))
	excess := math.Pow(std/codesStd/math.Exp2(exponent), 2) // of the variance with the smaller scale, 1 to 4
	larger := byte((excess - 1) / 3 * 256)
	const bias, blockBytes = 127, 17
	return func(src *source, p []byte) {
		src.bytes(p)
		for ; len(p) > 0; p = p[blockBytes:] {
			scale := byte(bias + exponent)
			if p[0] < larger {
				scale++
			}
			p[0] = scale
		}
	}
}

// symmetricBytes fills p with random bytes except -128, which no quantizer writes and some
// kernels cannot negate.
func symmetricBytes(src *source, p []byte) {
	const high, low = 0x8080808080808080, 0x7f7f7f7f7f7f7f7f
	src.bytes(p)
	for i := 0; i+8 <= len(p); i += 8 {
		v := binary.LittleEndian.Uint64(p[i:])
		x := v ^ high // 0 in each byte that is -128
		isZero := ^((x&low + low) | x | low)
		binary.LittleEndian.PutUint64(p[i:], v|isZero>>7)
	}
	for i := len(p) &^ 7; i < len(p); i++ {
		if p[i] == 0x80 {
			p[i] = 0x81
		}
	}
}

// floatFiller makes 16-bit floats with a random sign and fraction and the exponent that
// gives the closest standard deviation.
func floatFiller(std float64, fractionBits, bias int) filler {
	const everyWord = 0x0001000100010001
	const fractionStd = 1.5275 // standard deviation of ±[1, 2)
	exponent := uint64(bias + int(math.Round(math.Log2(std/fractionStd))))
	keep := (1<<15 | (uint64(1)<<fractionBits - 1)) * everyWord
	set := exponent << fractionBits * everyWord
	return func(src *source, p []byte) {
		for len(p) >= 8 {
			binary.LittleEndian.PutUint64(p, src.next()&keep|set)
			p = p[8:]
		}
		for ; len(p) >= 2; p = p[2:] {
			binary.LittleEndian.PutUint16(p, uint16(src.next()&keep|set))
		}
	}
}
