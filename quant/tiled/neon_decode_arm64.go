//go:build !noasm

package tiled

// fifthTables are constants for decoding the fifth bits of codes. Two bytes of a
// 64-bit word hold the fifth bits of four rows. rows are VTBL indices that repeat
// each of these bytes eight times, for each quarter of a tile. places are the shifts
// that move bit j of a byte to bit 4.
var fifthTables = struct {
	rows   [4][16]uint8
	places [16]int8
}{
	rows: [4][16]uint8{
		{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
		{2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3},
		{4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5},
		{6, 6, 6, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7},
	},
	places: [16]int8{4, 3, 2, 1, 0, -1, -2, -3, 4, 3, 2, 1, 0, -1, -2, -3},
}

//go:noescape
func decode4NEON(dst *uint8, src *byte, stride, groups int, table *[16]uint8)

//go:noescape
func decode5NEON(dst *uint8, src *byte, stride, groups, bias int)

//go:noescape
func decode6NEON(dst *uint8, src *byte, stride, groups, bias int)

//go:noescape
func scalesF16NEON(dst *float32, src *byte, stride, n int, flip uint32)

//go:noescape
func scalesExponentNEON(dst *float32, src *byte, stride, n int)

//go:noescape
func scalesZeroNEON(mins, scales *float32, src *byte, stride, n int)

//go:noescape
func scalesPairsNEON(scales, mins *float32, block *byte)

//go:noescape
func scalesBytesNEON(scales, factors *float32, block *byte)

//go:noescape
func scalesSixNEON(scales *float32, block *byte)

func (neon) decode(p *panel, f *format, blocks []byte, n int) {
	p.centred = true
	if f.low != nil {
		p.decodeLowBlocks(f, blocks, n, neonLow[f.low.typ], 0)
		return
	}
	size, head := len(blocks)/n, f.headBytes()
	if f.scales == oneScale {
		f.decodeCodesNEON(p.codes, blocks[head:], size, n)
		f.decodeScalesNEON(p.scales, p.mins, nil, blocks, n)
		return
	}
	groups := f.groups(size)
	for b := range n {
		block, at := blocks[b*size:][:size], b*groups
		f.decodeCodesNEON(p.codes[at*planes*planeBytes:], block[head:], f.groupBytes(), groups)
		f.decodeScalesNEON(p.scales[at*TileRows:], p.mins[at*TileRows:], p.factors[2*at*TileRows:], block, 1)
	}
}

// decode also reorders the codes for SMMLA, see pairCodesNEON.
func (k neonMatrix) decode(p *panel, f *format, blocks []byte, n int) {
	k.neonDot.decode(p, f, blocks, n)
	pairCodesNEON(&p.codes[0], n*f.groups(len(blocks)/n))
}

// decodeCodesNEON decodes the codes of n groups that are stride bytes apart and
// subtracts the format's zero point.
func (f *format) decodeCodesNEON(dst []uint8 /* [n][planes][TileRows][laneBytes] */, src []byte, stride, n int) {
	switch f.bits {
	case 4:
		table := tableLess(f.table, f.zero)
		decode4NEON(&dst[0], &src[0], stride, n, &table)
	case 5:
		decode5NEON(&dst[0], &src[0], stride, n, -f.zero)
	case 6:
		decode6NEON(&dst[0], &src[0], stride, n, -f.zero)
	case 8: // signCodesNEON subtracts the zero point, 128
		for g := range n {
			signCodesNEON(&dst[g*planes*planeBytes], &src[g*stride], 1)
		}
	}
}

// tableLess returns a decoding table with n subtracted from every entry.
func tableLess(table *[16]uint8, n int) (less [16]uint8) {
	for i, c := range table {
		less[i] = c - uint8(n)
	}
	return less
}

// decodeScalesNEON decodes the scales, and the mins or factors, of n tile blocks. n
// is 1 in formats with several groups per block.
func (f *format) decodeScalesNEON(scales, mins []float32 /* [groups][TileRows] */, factors []float32 /* [groups][halves][TileRows] */, blocks []byte, n int) {
	size := len(blocks) / n
	switch {
	case f.scales == pairs6:
		scalesPairsNEON(&scales[0], &mins[0], &blocks[0])
	case f.scales == bytes16:
		scalesBytesNEON(&scales[0], &factors[0], &blocks[0])
	case f.scales == six8:
		scalesSixNEON(&scales[0], &blocks[0])
	case f.exponent:
		scalesExponentNEON(&scales[0], &blocks[0], size, n)
	default:
		scalesF16NEON(&scales[0], &blocks[0], size, n, 0)
		if f.zeros {
			scalesZeroNEON(&mins[0], &scales[0], &blocks[2*TileRows], size, n)
		} else if f.hasMin() { // Q4_1 and Q5_1 add the offset
			scalesF16NEON(&mins[0], &blocks[2*TileRows], size, n, signMask)
		}
	}
}
