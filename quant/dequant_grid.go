package quant

import "encoding/binary"

// The formats of this file store points of a code book; see grids.go.

// gridDelta is what IQ1 adds to or subtracts from coordinates.
const gridDelta = 0.125

// putPoint writes scale times a point of n coordinates. A coordinate is negative where its bit of
// signs is set.
func putPoint(dst []float32 /* [n] */, g *Grid, index int, signs uint8, scale float32) {
	point := g.Point(index)
	for i := range dst {
		v := float32(scale * float32(point[i]))
		if signs>>i&1 != 0 {
			v = -v
		}
		dst[i] = v
	}
}

// putShifted writes scale times a point of IQ1 and an offset.
func putShifted(dst []float32 /* [8] */, index int, scale float32, negative bool) {
	point, delta := grids[IQ1_S].Point(index), float32(gridDelta)
	if negative {
		delta = -delta
	}
	for i := range dst {
		dst[i] = scale * (float32(point[i]) + delta)
	}
}

// blockIQ2XXS: f16 scale; for each 32 elements four indices of 8 bits and a word of four times
// seven signs and a 4-bit scale; x = d·(s+½)/4 · point.
func blockIQ2XXS(dst []float32 /* [256] */, src []byte /* [66] */) {
	d := f16At(src)
	for group := range 8 {
		part := src[2+8*group:]
		word := binary.LittleEndian.Uint32(part[4:])
		scale := d * (0.5 + float32(word>>28)) * 0.25
		for k := range 4 {
			signs := SignByte(uint8(word >> (7 * k) & 127))
			putPoint(dst[32*group+8*k:][:8], grids[IQ2_XXS], int(part[k]), signs, scale)
		}
	}
}

// blockIQ2XS: f16 scale, 32 numbers of a 9-bit index and seven signs, 16 scales of 4 bits for 16
// elements each; x = d·(s+½)/4 · point.
func blockIQ2XS(dst []float32 /* [256] */, src []byte /* [74] */) {
	d := f16At(src)
	for k := range 32 {
		code := binary.LittleEndian.Uint16(src[2+2*k:])
		scale := d * (0.5 + float32(src[66+k/4]>>(k/2%2*4)&15)) * 0.25
		putPoint(dst[8*k:][:8], grids[IQ2_XS], int(code&511), SignByte(uint8(code>>9)), scale)
	}
}

// blockIQ2S: f16 scale, 32 low bytes of 10-bit indices, 32 bytes of signs, 8 bytes of the indices'
// upper bit pairs, 16 scales of 4 bits as in IQ2_XS.
func blockIQ2S(dst []float32 /* [256] */, src []byte /* [82] */) {
	d := f16At(src)
	for k := range 32 {
		index := int(src[2+k]) | int(src[66+k/4]>>(k%4*2)&3)<<8
		scale := d * (0.5 + float32(src[74+k/4]>>(k/2%2*4)&15)) * 0.25
		putPoint(dst[8*k:][:8], grids[IQ2_S], index, src[34+k], scale)
	}
}

// blockIQ3XXS: f16 scale, 64 indices of 8 bits, for each 32 elements a word as in IQ2_XXS;
// x = d·(s+½)/2 · point.
func blockIQ3XXS(dst []float32 /* [256] */, src []byte /* [98] */) {
	d := f16At(src)
	for group := range 8 {
		word := binary.LittleEndian.Uint32(src[66+4*group:])
		scale := d * (0.5 + float32(word>>28)) * 0.5
		for k := range 8 {
			signs := SignByte(uint8(word>>(7*(k/2))&127)) >> (k % 2 * 4)
			putPoint(dst[32*group+4*k:][:4], grids[IQ3_XXS], int(src[2+8*group+k]), signs, scale)
		}
	}
}

// blockIQ3S: f16 scale, 64 low bytes of 9-bit indices, 8 bytes of their ninth bits, 32 bytes of
// signs, eight scales of 4 bits; x = d·(2s+1) · point.
func blockIQ3S(dst []float32 /* [256] */, src []byte /* [110] */) {
	d := f16At(src)
	for k := range 64 {
		group := k / 8
		index := int(src[2+k]) | int(src[66+group]>>(k%8)&1)<<8
		scale := d * float32(1+2*(src[106+group/2]>>(group%2*4)&15))
		putPoint(dst[4*k:][:4], grids[IQ3_S], index, src[74+k/2]>>(k%2*4), scale)
	}
}

// blockIQ1S: f16 scale, 32 low bytes of 11-bit indices, for each 32 elements a number with four
// times three upper bits, a 3-bit scale and the sign of ⅛; x = d·(2s+1) · (point ± ⅛).
func blockIQ1S(dst []float32 /* [256] */, src []byte /* [50] */) {
	d := f16At(src)
	for k := range 32 {
		high := binary.LittleEndian.Uint16(src[34+k/4*2:])
		index := int(src[2+k]) | int(high>>(k%4*3)&7)<<8
		putShifted(dst[8*k:][:8], index, d*float32(2*(high>>12&7)+1), high>>15 != 0)
	}
}

// blockIQ1M: 32 low bytes of 11-bit indices, 32 nibbles of their upper three bits and the sign of
// ⅛, four numbers of four 3-bit scales for 16 elements each, whose upper nibbles are the f16 scale.
func blockIQ1M(dst []float32 /* [256] */, src []byte /* [56] */) {
	d := scaleIQ1M(src[48:])
	for k := range 32 {
		nibble := src[32+k/2] >> (k % 2 * 4) & 15
		s := binary.LittleEndian.Uint16(src[48+k/8*2:]) >> (k / 2 % 4 * 3) & 7
		putShifted(dst[8*k:][:8], int(src[k])|int(nibble&7)<<8, d*float32(2*s+1), nibble>>3 != 0)
	}
}

// scaleIQ1M returns the f16 scale whose nibbles, the lowest first, are the upper ones of four
// numbers.
func scaleIQ1M(src []byte /* [8] */) float32 {
	var half uint16
	for i := range 4 {
		half |= uint16(src[2*i+1]>>4) << (4 * i)
	}
	return F16ToF32(half)
}
