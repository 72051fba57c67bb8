package quant

import "math"

// F16ToF32 returns the value of a binary16 bit pattern. Every one is exact in
// float32; a NaN keeps its payload and becomes quiet, as the hardware
// conversions do.
func F16ToF32(h uint16) float32 {
	sign := uint32(h>>15) << 31
	exponent := uint32(h>>10) & 0x1f
	mantissa := uint32(h) & 0x3ff
	switch {
	case exponent == 0x1f && mantissa != 0:
		return math.Float32frombits(sign | 0x7fc00000 | mantissa<<13)
	case exponent == 0x1f:
		return math.Float32frombits(sign | 0x7f800000)
	case exponent != 0:
		return math.Float32frombits(sign | (exponent+127-15)<<23 | mantissa<<13)
	}
	// Zero and the subnormals: an integer below 1024 times 2^-24, both exact.
	return math.Float32frombits(sign | math.Float32bits(float32(mantissa)*0x1p-24))
}

// F32ToF16 rounds f to binary16, to nearest with ties to even. Values beyond
// the range become infinite and a NaN stays a NaN.
func F32ToF16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits>>16) & 0x8000
	magnitude := bits & 0x7fffffff
	switch {
	case magnitude > 0x7f800000:
		return sign | 0x7e00 | uint16(magnitude>>13)&0x3ff
	case magnitude >= 0x47800000: // 2^16 and more, infinity among them
		return sign | 0x7c00
	case magnitude < 0x38800000: // below 2^-14: the result is subnormal
		// Adding 0.5 aligns the value to the grid of 2^-24 and lets the
		// float32 adder do the rounding to even.
		aligned := math.Float32frombits(magnitude) + 0.5
		return sign | uint16(math.Float32bits(aligned)-math.Float32bits(0.5))
	}
	// Rebias the exponent, then round the 13 dropped bits; a carry out of the
	// mantissa moves into the exponent, up to infinity, as it should.
	rebased := magnitude - (127-15)<<23
	return sign | uint16((rebased+0xfff+rebased>>13&1)>>13)
}

// BF16ToF32 returns the value of a bfloat16 bit pattern: the upper half of the
// float32 that it stands for.
func BF16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F32ToBF16 rounds f to bfloat16, to nearest with ties to even. A NaN stays a
// NaN.
func F32ToBF16(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&0x7fffffff > 0x7f800000 {
		return uint16(bits>>16) | 0x40 // stays a NaN if only the dropped half has payload bits
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
