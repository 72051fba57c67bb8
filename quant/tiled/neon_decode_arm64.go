//go:build !noasm

package tiled

// fifthTables are what decoding the fifth bits of codes takes. Two bytes of a
// word hold those of four rows: rows lists each of the two eight times, for all
// four quarters of a tile, and places says how far left of bit 4 the bits are.
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

// decode brings steps of codes together too.
func (k neonMatrix) decode(p *panel, f *format, blocks []byte, n int) {
	k.neonDot.decode(p, f, blocks, n)
	pairCodesNEON(&p.codes[0], n*f.groups(len(blocks)/n))
}

// decodeCodesNEON decodes n groups that are stride bytes apart, less the format's
// zero.
func (f *format) decodeCodesNEON(dst []uint8 /* [n][planes][TileRows][laneBytes] */, src []byte, stride, n int) {
	switch f.bits {
	case 4:
		table := f.tableLess(f.zero)
		decode4NEON(&dst[0], &src[0], stride, n, &table)
	case 5:
		decode5NEON(&dst[0], &src[0], stride, n, -f.zero)
	case 6:
		decode6NEON(&dst[0], &src[0], stride, n, -f.zero)
	case 8: // its zero is 128
		for g := range n {
			signCodesNEON(&dst[g*planes*planeBytes], &src[g*stride], 1)
		}
	}
}

// tableLess returns what nibbles stand for, less a number.
func (f *format) tableLess(n int) (table [16]uint8) {
	for i, c := range f.table {
		table[i] = c - uint8(n)
	}
	return table
}

// decodeScalesNEON decodes the scales, and mins or factors, of n blocks; n is 1
// where a block has more than one of them.
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
		} else if f.hasMin() { // these formats add it
			scalesF16NEON(&mins[0], &blocks[2*TileRows], size, n, signMask)
		}
	}
}
