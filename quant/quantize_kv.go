package quant

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The rounding of keys and values to 8 bits has one scale for all numbers, which
// maps the largest magnitude to the largest code: x is about code·scale. Codes
// are nearest, halves to even:
//
//	code = round(x·(top/a)), scale = a/top      a is the largest magnitude
//
// If a is not above 2^-100 all codes and the scale are 0. A NaN or an infinity
// makes the scale so, and with it every result: a broken token must not pass for
// a sound one. Codes go where attention reads them, and no byte between them is
// touched: neighbouring tokens may be rounded at the same time.

// maxCode8 is the largest code of 8 bits.
const maxCode8 = 127

// QuantizeKey8 rounds a key to codes of 8 bits with a zero of 128, four neighbours
// together, the next four step bytes on.
func QuantizeKey8(dst []uint8, step int, x []float32 /* [n] */) (scale float32) {
	n := len(x)
	if n == 0 {
		return 0
	}
	if last := (n-1)/4*step + (n-1)%4; step < 4 || last >= len(dst) {
		panic(fmt.Sprintf("quant: a key of %d elements, %d bytes apart, exceeds %d bytes", n, step, len(dst)))
	}
	scale, inverse := scaleFor(x, maxCode8)
	if inverse == 0 {
		for i := range x {
			dst[i/4*step+i%4] = 128
		}
		return scale
	}
	active.quantizeKey8(dst, step, x, inverse)
	return scale
}

// QuantizePairs8 rounds a value to codes of 8 bits, of which each is followed by
// the code of a neighbouring token.
func QuantizePairs8(dst []int8 /* [2n-1] */, x []float32 /* [n] */) (scale float32) {
	if len(x) == 0 {
		return 0
	}
	if len(dst) < 2*len(x)-1 {
		panic(fmt.Sprintf("quant: a value of %d elements exceeds %d bytes", len(x), len(dst)))
	}
	scale, inverse := scaleFor(x, maxCode8)
	if inverse == 0 {
		for i := range x {
			dst[2*i] = 0
		}
		return scale
	}
	active.quantizePairs8(dst, x, inverse)
	return scale
}

// QuantizeF8 rounds a value to floats of 8 bits: x is about F8ToF32(code)·scale.
func QuantizeF8(dst []uint8, x []float32 /* [n] */) (scale float32) {
	dst = dst[:len(x)]
	scale, inverse := scaleFor(x, f8Largest)
	if inverse == 0 {
		clear(dst)
		return scale
	}
	active.quantizeF8(dst, x, inverse)
	return scale
}

// RoundF16 rounds numbers to binary16, to nearest with ties to even. What is
// beyond the range becomes infinite.
func RoundF16(dst []byte /* [2n] */, x []float32 /* [n] */) { active.roundF16(dst[:2*len(x)], x) }

// scaleFor returns the scale that maps the largest magnitude to top, and its
// inverse; 0 where no codes can be given.
func scaleFor(x []float32, top float32) (scale, inverse float32) {
	bits := active.largestBits(x)
	if bits < minWeightBits {
		return 0, 0
	}
	most := math.Float32frombits(bits)
	if bits >= infinityBits {
		return most, 0
	}
	return most / top, top / most
}

// simdElems returns how many of n elements rounding kernels take, in steps of
// 16.
func simdElems(n int) int { return n &^ 15 }

// largestBits returns the bits of the largest magnitude; NaNs are largest.
func (portable) largestBits(x []float32) (bits uint32) {
	for _, v := range x {
		bits = max(bits, math.Float32bits(v)&^(1<<31))
	}
	return bits
}

func (k portable) quantizeKey8(dst []uint8, step int, x []float32, inverse float32) {
	k.quantizeKey8From(0, dst, step, x, inverse)
}

// quantizeKey8From is quantizeKey8 for the elements from i on.
func (portable) quantizeKey8From(i int, dst []uint8, step int, x []float32, inverse float32) {
	for ; i < len(x); i++ {
		dst[i/4*step+i%4] = uint8(roundEven(float32(x[i]*inverse))) ^ 0x80
	}
}

func (portable) quantizePairs8(dst []int8, x []float32, inverse float32) {
	for i, v := range x {
		dst[2*i] = int8(roundEven(float32(v * inverse)))
	}
}

func (portable) quantizeF8(dst []uint8, x []float32, inverse float32) {
	for i, v := range x {
		dst[i] = encodeF8(float32(v * inverse))
	}
}

func (portable) roundF16(dst []byte, x []float32) {
	for i, v := range x {
		binary.LittleEndian.PutUint16(dst[2*i:], F32ToF16(v))
	}
}
