package quant

import "math"

// The formats of this file store elements of one to two bits, or 4-bit floats whose scales are
// 8-bit floats.

// powersOf3 multiply a byte of base-3 digits so that a digit becomes its highest one.
var powersOf3 = [5]uint8{1, 3, 9, 27, 81}

// Trit returns digit n of a byte of TQ1_0, 0 to 2: such a byte is a fraction of 256 with five
// digits in base 3, the first one highest.
func Trit(b byte, n int) uint8 { return uint8(uint16(b*powersOf3[n]) * 3 >> 8) }

// blockTQ1_0: 48 bytes of five base-3 digits, 4 bytes of four, f16 scale; x = d·(digit-1). Digit n
// of the first 32 bytes is of elements 32n on, of the next 16 of 160+16n on, of the last of 240+4n on.
func blockTQ1_0(dst []float32 /* [256] */, src []byte /* [54] */) {
	d := f16At(src[52:])
	for _, run := range [...]struct{ at, size, digits, to int }{{0, 32, 5, 0}, {32, 16, 5, 160}, {48, 4, 4, 240}} {
		for n := range run.digits {
			for i, b := range src[run.at:][:run.size] {
				dst[run.to+n*run.size+i] = d * float32(int(Trit(b, n))-1)
			}
		}
	}
}

// blockTQ2_0: 64 bytes of 2-bit codes in runs as those of Q2_K, f16 scale; x = d·(code-1).
func blockTQ2_0(dst []float32 /* [256] */, src []byte /* [66] */) {
	d := f16At(src[64:])
	for i := range dst {
		code := src[i/128*32+i%32] >> (i / 32 % 4 * 2) & 3
		dst[i] = d * float32(int(code)-1)
	}
}

// blockQ1_0: f16 scale, 16 bytes of bits from the lowest on; x = d for 1, -d for 0.
func blockQ1_0(dst []float32 /* [128] */, src []byte /* [18] */) {
	d := f16At(src)
	for i := range dst {
		dst[i] = d
		if src[2+i/8]>>(i%8)&1 == 0 {
			dst[i] = -d
		}
	}
}

// blockQ2_0: f16 scale, 16 bytes of 2-bit codes from the lowest on; x = d·(code-1).
func blockQ2_0(dst []float32 /* [64] */, src []byte /* [18] */) {
	d := f16At(src)
	for i := range dst {
		dst[i] = d * float32(int(src[2+i/4]>>(i%4*2)&3)-1)
	}
}

// blockNVFP4: four scales of 16 elements each in e4m3 without a sign, then for each of them 8 bytes
// of 4-bit floats, the first half of the elements in the low nibbles; x = scale/2 · table[code].
func blockNVFP4(dst []float32 /* [64] */, src []byte /* [36] */) {
	for part := range 4 {
		scale := UE4M3Half(src[part])
		low, high := dst[16*part:][:8], dst[16*part+8:][:8]
		for i, b := range src[4+8*part:][:8] {
			low[i] = scale * mxfp4Values[b&15]
			high[i] = scale * mxfp4Values[b>>4]
		}
	}
}

// UE4M3Half returns half of an 8-bit float without a sign: 4 bits of exponent, 3 of mantissa. 0x7f,
// which stands for no number, is 0.
func UE4M3Half(b uint8) float32 {
	exponent, mantissa := uint32(b>>3&15), uint32(b&7)
	switch {
	case b == 0x7f:
		return 0
	case exponent == 0:
		return float32(mantissa) / 1024
	}
	return math.Float32frombits((exponent+119)<<23 | mantissa<<20)
}
