package quant

import (
	"encoding/binary"
	"math"
)

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
