package quant

import (
	"encoding/binary"
	"fmt"
	"math"
)

// DequantRow writes the float32 values of a row (or any whole number of
// blocks) of format t into dst. src must hold RowBytes(len(dst)) bytes.
//
// The values are exactly those of the reference implementation: scales are
// multiplied before quants, each operation rounded to float32. For most
// formats the products are exact anyway, having fewer than 24 significant bits.
func DequantRow(t Type, dst []float32 /* [cols] */, src []byte) {
	size, err := t.RowBytes(len(dst))
	if err != nil {
		panic(err) // store checks shapes on load, so this is a caller's mistake
	}
	if len(src) < size {
		panic(fmt.Sprintf("quant: %d bytes are too few for a row of %d %s elements", len(src), len(dst), t))
	}
	active.dequant(t, dst, src[:size])
}

// dequantPortable is the reference decoder of every format. src holds exactly
// the blocks of dst.
func dequantPortable(t Type, dst []float32, src []byte) {
	switch t {
	case F32:
		dequantF32(dst, src)
	case F16:
		dequantF16(dst, src)
	case BF16:
		dequantBF16(dst, src)
	default:
		elems, size := types[t].blockElems, types[t].blockBytes
		decode := blockDecoders[t]
		for len(dst) >= elems {
			decode(dst[:elems], src[:size])
			dst, src = dst[elems:], src[size:]
		}
	}
}

// blockDecoders decode one block each: dst has the block's elements and src
// its bytes.
var blockDecoders = [numTypes]func(dst []float32, src []byte){
	Q4_0:    blockQ4_0,
	Q4_1:    blockQ4_1,
	Q5_0:    blockQ5_0,
	Q5_1:    blockQ5_1,
	Q8_0:    blockQ8_0,
	Q2_K:    blockQ2_K,
	Q3_K:    blockQ3_K,
	Q4_K:    blockQ4_K,
	Q5_K:    blockQ5_K,
	Q6_K:    blockQ6_K,
	IQ4_NL:  blockIQ4_NL,
	IQ4_XS:  blockIQ4_XS,
	MXFP4:   blockMXFP4,
	I4Z:     blockI4Z,
	NF4:     blockNF4,
	IQ1_S:   blockIQ1S,
	IQ1_M:   blockIQ1M,
	IQ2_XXS: blockIQ2XXS,
	IQ2_XS:  blockIQ2XS,
	IQ2_S:   blockIQ2S,
	IQ3_XXS: blockIQ3XXS,
	IQ3_S:   blockIQ3S,
	TQ1_0:   blockTQ1_0,
	TQ2_0:   blockTQ2_0,
	Q1_0:    blockQ1_0,
	Q2_0:    blockQ2_0,
	NVFP4:   blockNVFP4,
}

// f16At returns the little-endian binary16 value at the start of src.
func f16At(src []byte) float32 { return F16ToF32(binary.LittleEndian.Uint16(src)) }

func dequantF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func dequantF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = f16At(src[2*i:])
	}
}

// dequantBF16 reads four values with one load, which is what makes the
// portable decode of a bf16 model fast enough.
func dequantBF16(dst []float32, src []byte) {
	for len(dst) >= 4 && len(src) >= 8 {
		four := binary.LittleEndian.Uint64(src)
		dst[0] = math.Float32frombits(uint32(four) << 16)
		dst[1] = math.Float32frombits(uint32(four) & 0xffff0000)
		dst[2] = math.Float32frombits(uint32(four>>32) << 16)
		dst[3] = math.Float32frombits(uint32(four>>32) & 0xffff0000)
		dst, src = dst[4:], src[8:]
	}
	for i := range dst {
		dst[i] = BF16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

// The formats of this file have blocks of 32 elements with one scale, and some
// an offset. A byte of packed quants holds element i in its low nibble and
// element i+16 in its high one.

// blockQ4_0: scale f16, 16 bytes of nibbles; x = scale * (q-8).
func blockQ4_0(dst []float32 /* [32] */, src []byte /* [18] */) {
	scale := f16At(src)
	low, high := dst[:16], dst[16:32]
	for i, b := range src[2:18] {
		low[i] = scale * float32(int(b&0xf)-8)
		high[i] = scale * float32(int(b>>4)-8)
	}
}

// blockQ4_1: scale f16, offset f16, 16 bytes of nibbles; x = scale*q + offset.
func blockQ4_1(dst []float32 /* [32] */, src []byte /* [20] */) {
	scale, offset := f16At(src), f16At(src[2:])
	low, high := dst[:16], dst[16:32]
	for i, b := range src[4:20] {
		low[i] = float32(scale*float32(b&0xf)) + offset
		high[i] = float32(scale*float32(b>>4)) + offset
	}
}

// blockI4Z: scale f16, zero u8, 16 bytes of nibbles; x = scale * (q-zero), which
// is exact.
func blockI4Z(dst []float32 /* [32] */, src []byte /* [19] */) {
	scale, zero := f16At(src), int(src[2])
	low, high := dst[:16], dst[16:32]
	for i, b := range src[3:19] {
		low[i] = scale * float32(int(b&0xf)-zero)
		high[i] = scale * float32(int(b>>4)-zero)
	}
}

// blockQ5_0: scale f16, 32 fifth bits, 16 bytes of nibbles; x = scale * (q-16).
func blockQ5_0(dst []float32 /* [32] */, src []byte /* [22] */) {
	scale, fifth := f16At(src), binary.LittleEndian.Uint32(src[2:])
	low, high := dst[:16], dst[16:32]
	for i, b := range src[6:22] {
		low[i] = scale * float32(int(b&0xf)|int(fifth>>i&1)<<4-16)
		high[i] = scale * float32(int(b>>4)|int(fifth>>(i+16)&1)<<4-16)
	}
}

// blockQ5_1: scale f16, offset f16, 32 fifth bits, 16 bytes of nibbles;
// x = scale*q + offset.
func blockQ5_1(dst []float32 /* [32] */, src []byte /* [24] */) {
	scale, offset, fifth := f16At(src), f16At(src[2:]), binary.LittleEndian.Uint32(src[4:])
	low, high := dst[:16], dst[16:32]
	for i, b := range src[8:24] {
		low[i] = float32(scale*float32(uint32(b&0xf)|fifth>>i&1<<4)) + offset
		high[i] = float32(scale*float32(uint32(b>>4)|fifth>>(i+16)&1<<4)) + offset
	}
}

// blockQ8_0: scale f16, 32 signed bytes; x = scale * q.
func blockQ8_0(dst []float32 /* [32] */, src []byte /* [34] */) {
	scale := f16At(src)
	dst = dst[:32]
	for i, b := range src[2:34] {
		dst[i] = scale * float32(int8(b))
	}
}

// The formats of this file store 4-bit indices into a fixed table of values.

// iq4Values is the non-uniform grid of IQ4_NL and IQ4_XS.
var iq4Values = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// mxfp4Values are the e2m1 numbers doubled, so that they are integers; the
// block's scale is halved in turn. Index 8 is minus zero in the format and
// plain zero in the reference implementation, hence here.
var mxfp4Values = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// nf4Values are the levels of NF4, those that are equally likely in a normal
// distribution, in steps of 1/127: as integers they take the place of IQ4_NL's in
// every kernel. Rounding moves a level by at most 0.4 % of the largest.
var nf4Values = [16]float32{-127, -88, -67, -50, -36, -23, -12, 0, 10, 20, 31, 43, 56, 71, 92, 127}

// lookupNibbles writes scale times the table's values: element i from the low
// nibble of byte i, element i+16 from the high one.
func lookupNibbles(dst []float32 /* [32] */, packed []byte /* [16] */, scale float32, table *[16]float32) {
	low, high := dst[:16], dst[16:32]
	for i, b := range packed {
		low[i] = scale * table[b&0xf]
		high[i] = scale * table[b>>4]
	}
}

// blockIQ4_NL: scale f16, 16 bytes of indices; x = scale * table[q].
func blockIQ4_NL(dst []float32 /* [32] */, src []byte /* [18] */) {
	lookupNibbles(dst, src[2:18], f16At(src), &iq4Values)
}

// blockNF4: scale f16, 16 bytes of indices; x = scale * table[q].
func blockNF4(dst []float32 /* [32] */, src []byte /* [18] */) {
	lookupNibbles(dst, src[2:18], f16At(src), &nf4Values)
}

// blockIQ4_XS: f16 scale, 8 upper bit pairs and 8 low nibbles of eight 6-bit
// scales, 128 bytes of indices; x = (d*(scale-32)) * table[q], groups of 32.
func blockIQ4_XS(dst []float32 /* [256] */, src []byte /* [136] */) {
	d, pairs := f16At(src), binary.LittleEndian.Uint16(src[2:])
	for group := range 8 {
		low := src[4+group/2] >> (group % 2 * 4) & 0xf
		high := pairs >> (2 * group) & 3
		scale := d * float32(int(low)|int(high)<<4-32)
		lookupNibbles(dst[32*group:], src[8+16*group:][:16], scale, &iq4Values)
	}
}

// blockMXFP4: scale e8m0, 16 bytes of indices; x = 2^(e-127)/2 * table[q].
func blockMXFP4(dst []float32 /* [32] */, src []byte /* [17] */) {
	lookupNibbles(dst, src[1:17], e8m0Half(src[0]), &mxfp4Values)
}

// e8m0Half returns 2^(e-128), half of what the exponent byte means. The two
// smallest are subnormal in float32.
func e8m0Half(e uint8) float32 {
	if e < 2 {
		return math.Float32frombits(0x00200000 << e)
	}
	return math.Float32frombits(uint32(e-1) << 23)
}

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
