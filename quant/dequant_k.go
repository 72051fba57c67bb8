package quant

// The K formats have superblocks of 256 elements: groups of 16 or 32 elements
// with small integer scales, multiplied by one f16 scale of the superblock.
// Quants of fewer than 8 bits are packed so that one byte position serves
// elements 32 or 64 apart.

// blockQ2_K: 16 bytes of (scale, min) nibbles, 64 bytes of 2-bit quants,
// f16 scale, f16 min scale; x = (d*scale)*q - dmin*min, groups of 16.
func blockQ2_K(dst []float32 /* [256] */, src []byte /* [84] */) {
	scales, packed := src[:16], src[16:80]
	d, dmin := f16At(src[80:]), f16At(src[82:])
	for group, s := range scales {
		scale, offset := d*float32(s&0xf), dmin*float32(s>>4)
		bytes, shift := group16(packed, group)
		out := dst[16*group:][:16]
		for i, b := range bytes {
			out[i] = float32(scale*float32(b>>shift&3)) - offset
		}
	}
}

// group16 locates the 2-bit quants of a group of 16: a half of 128 elements
// takes 32 bytes, which serve four runs of 32 elements by shifts of 0, 2, 4, 6.
func group16(packed []byte /* [64] */, group int) (bytes []byte /* [16] */, shift int) {
	half, run, part := group/8, group%8/2, group%2
	return packed[32*half+16*part:][:16], 2 * run
}

// blockQ3_K: 32 bytes of third bits, 64 bytes of 2-bit quants, 12 bytes of
// 6-bit scales, f16 scale; x = (d*(scale-32)) * (q-4), groups of 16.
func blockQ3_K(dst []float32 /* [256] */, src []byte /* [110] */) {
	third, packed := src[:32], src[32:96]
	scales, d := unpackQ3Scales(src[96:108]), f16At(src[108:])
	for group, s := range scales {
		scale := d * float32(s)
		bytes, shift := group16(packed, group)
		thirdBytes, thirdShift := third[group%2*16:][:16], group/2
		out := dst[16*group:][:16]
		for i, b := range bytes {
			q := int(b>>shift&3) | int(thirdBytes[i]>>thirdShift&1)<<2
			out[i] = scale * float32(q-4)
		}
	}
}

// unpackQ3Scales returns the sixteen 6-bit scales less 32. Their low nibbles
// are in bytes 0-7 (scales 0-7 low, 8-15 high), their upper two bits in bytes
// 8-11, four scales to each bit pair.
func unpackQ3Scales(src []byte /* [12] */) (scales [16]int8) {
	for i := range scales {
		low := src[i%8] >> (i / 8 * 4) & 0xf
		high := src[8+i%4] >> (i / 4 * 2) & 3
		scales[i] = int8(low|high<<4) - 32
	}
	return scales
}

// scaleMinK4 returns 6-bit scale and min number i of the eight of each that
// Q4_K and Q5_K pack into 12 bytes: the first four whole in bytes 0-7, the
// others with their low nibbles in bytes 8-11 and the upper two bits in the
// spare bits of bytes 0-7.
func scaleMinK4(src []byte /* [12] */, i int) (scale, offset uint8) {
	if i < 4 {
		return src[i] & 63, src[i+4] & 63
	}
	return src[i+4]&0xf | src[i-4]>>6<<4, src[i+4]>>4 | src[i]>>6<<4
}

// blockQ4_K: f16 scale, f16 min scale, 12 bytes of scales and mins, 128 bytes
// of nibbles; x = (d*scale)*q - dmin*min, groups of 32.
func blockQ4_K(dst []float32 /* [256] */, src []byte /* [144] */) {
	d, dmin := f16At(src), f16At(src[2:])
	for group := range 8 {
		s, m := scaleMinK4(src[4:16], group)
		scale, offset := d*float32(s), dmin*float32(m)
		shift := group % 2 * 4
		out := dst[32*group:][:32]
		for i, b := range src[16+group/2*32:][:32] {
			out[i] = float32(scale*float32(b>>shift&0xf)) - offset
		}
	}
}

// blockQ5_K: as Q4_K, with 32 bytes of fifth bits before the nibbles; bit g of
// byte i belongs to element i of group g.
func blockQ5_K(dst []float32 /* [256] */, src []byte /* [176] */) {
	d, dmin := f16At(src), f16At(src[2:])
	fifth := src[16:48]
	for group := range 8 {
		s, m := scaleMinK4(src[4:16], group)
		scale, offset := d*float32(s), dmin*float32(m)
		shift := group % 2 * 4
		out := dst[32*group:][:32]
		for i, b := range src[48+group/2*32:][:32] {
			q := b>>shift&0xf | fifth[i]>>group&1<<4
			out[i] = float32(scale*float32(q)) - offset
		}
	}
}

// blockQ6_K: 128 bytes of nibbles, 64 bytes of upper bit pairs, 16 signed
// scales, f16 scale; x = (d*scale) * (q-32), groups of 16.
func blockQ6_K(dst []float32 /* [256] */, src []byte /* [210] */) {
	nibbles, pairs, scales, d := src[:128], src[128:192], src[192:208], f16At(src[208:])
	for group, s := range scales {
		scale := d * float32(int8(s))
		// A half of 128 elements has four runs of 32: the low nibbles of its 64
		// bytes, then the high ones, each with its own bit pair.
		half, run, part := group/8, group%8/2, group%2
		low := nibbles[64*half+32*(run%2)+16*part:][:16]
		high := pairs[32*half+16*part:][:16]
		out := dst[16*group:][:16]
		for i, b := range low {
			q := int(b>>(run/2*4)&0xf) | int(high[i]>>(2*run)&3)<<4
			out[i] = scale * float32(q-32)
		}
	}
}
