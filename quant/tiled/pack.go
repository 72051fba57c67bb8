package tiled

import (
	"encoding/binary"

	"github.com/llmrun/llmrun/quant"
)

// LayoutVersion is the version of the tile layout that Pack writes. Packs store it.
// Increment it when the layout changes.
const LayoutVersion = 1

// Pack converts all rows of a matrix from the model file's layout to tiles. dst has
// the size that Bytes returns; Pack fills the missing rows of the last tile with zero
// bytes. src holds rows of type t, which must be Supported.
//
// format, rowBlock and store define the layout. The common types have specialized
// packers that move words instead of single elements, because the user waits for
// packing when a model is first loaded.
func Pack(dst []byte, t quant.Type, src []byte /* [rows, cols] */, rows, cols int) {
	f, blockBytes := formats[t], t.BlockBytes()
	rowBytes := cols / t.BlockElems() * blockBytes
	tileBlock := blockBytes * TileRows
	clear(dst)
	pack := packers[t]
	if pack == nil {
		pack = f.packElements
	}
	for first := 0; first < rows; first += TileRows {
		tile := dst[first*rowBytes:]
		tileRows := src[first*rowBytes : min(first+TileRows, rows)*rowBytes]
		// The loop over rows is the inner one, so that the tile block stays in the L1 cache.
		for b := range cols / t.BlockElems() {
			block := tile[b*tileBlock:][:tileBlock]
			for row := range len(tileRows) / rowBytes {
				pack(block, row, tileRows[row*rowBytes+b*blockBytes:][:blockBytes])
			}
		}
	}
}

// packElements packs one row's block of any format element by element.
func (f *format) packElements(tile []byte, row int, src []byte) {
	if f.low != nil {
		f.low.store(tile, row, src)
		return
	}
	var r rowBlock
	f.split(&r, src)
	f.store(tile, row, &r)
}

// packers are specialized versions of packElements. tile is a cleared tile block and
// src is the block of one row.
var packers = map[quant.Type]func(tile []byte, row int, src []byte){
	quant.Q4_0:   packNibbles,
	quant.Q4_1:   packNibbles,
	quant.IQ4_NL: packNibbles,
	quant.Q5_0:   packFiveBits,
	quant.Q5_1:   packFiveBits,
	quant.Q8_0:   packBytes,
	quant.Q4_K:   packQ4K,
	quant.Q5_K:   packQ5K,
	quant.Q6_K:   packQ6K,
	quant.MXFP4:  packMXFP4,
	quant.I4Z:    packI4Z,
	quant.NF4:    packNibbles,
}

const (
	lowNibbles  = 0x0f0f0f0f0f0f0f0f
	lowBits     = 0x0101010101010101
	lowPairs    = 0x03030303
	signBits    = 0x8080808080808080
	nibbleGroup = 4 * planeBytes // size of a group's nibbles in a tile
)

// packHalves copies the leading 16-bit numbers of a block, all but the last rest
// bytes of src, and returns the remainders of tile and src.
func packHalves(tile []byte, row int, src []byte, rest int) (toTile, toSrc []byte) {
	for len(src) > rest {
		tile[2*row], tile[2*row+1] = src[0], src[1]
		tile, src = tile[2*TileRows:], src[2:]
	}
	return tile, src
}

// putWords writes the low and high 32 bits of words to one row of two adjacent
// planes.
func putWords(planes []byte, row int, words uint64) {
	at := row % TileRows * laneBytes // row < TileRows; % lets the compiler drop bounds checks
	_ = planes[2*planeBytes-1]
	binary.LittleEndian.PutUint32(planes[at:], uint32(words))
	binary.LittleEndian.PutUint32(planes[planeBytes+at:], uint32(words>>32))
}

// packNibbles packs a block of 32 nibbles. Files and tiles pair them alike: element
// i shares a byte with element 16+i.
func packNibbles(tile []byte, row int, src []byte) {
	tile, src = packHalves(tile, row, src, 16)
	putWords(tile, row, binary.LittleEndian.Uint64(src))
	putWords(tile[2*planeBytes:], row, binary.LittleEndian.Uint64(src[8:]))
}

// packMXFP4 packs a byte, the exponent, and nibbles.
func packMXFP4(tile []byte, row int, src []byte) {
	tile[row] = src[0]
	packNibbles(tile[TileRows:], row, src[1:])
}

// packI4Z packs a scale, a byte, the zero point, and nibbles.
func packI4Z(tile []byte, row int, src []byte) {
	tile, src = packHalves(tile, row, src, 17)
	packMXFP4(tile, row, src)
}

// packFiveBits packs halves, a 32-bit word of fifth bits, and nibbles.
func packFiveBits(tile []byte, row int, src []byte) {
	tile, src = packHalves(tile, row, src, 20)
	high := binary.LittleEndian.Uint32(src)
	for p := range planes {
		orBits(tile[8*p:], row, high>>(4*p))
	}
	packNibbles(tile[8*planes:], row, src[4:])
}

// orBits sets the four fifth bits of a row in a plane of fifth bits.
func orBits(plane []byte, row int, bits uint32) {
	plane[row/2] |= byte(bits & 15 << (row % 2 * 4))
}

// packBytes packs 32 signed bytes as unsigned codes with zero point 128.
func packBytes(tile []byte, row int, src []byte) {
	tile, src = packHalves(tile, row, src, 32)
	for k := range 4 {
		putWords(tile[2*k*planeBytes:], row, binary.LittleEndian.Uint64(src[8*k:])^signBits)
	}
}

// packPairs packs the 12 bytes of 6-bit scales and mins of Q4_K and Q5_K.
func packPairs(head []byte, row int, src []byte) {
	var r rowBlock
	r.splitPairs(src)
	for s := range 4 {
		low, high := r.scale[s]>>4|r.min[s]>>4<<2, r.scale[s+4]>>4|r.min[s+4]>>4<<2
		head[s*TileRows+row] = r.scale[s]&15 | r.min[s]<<4
		head[(s+4)*TileRows+row] = r.scale[s+4]&15 | r.min[s+4]<<4
		head[(s+8)*TileRows+row] = low | high<<4
	}
}

// packWide packs 32 bytes whose low nibbles are one group and whose high nibbles
// are another.
func packWide(low, high []byte /* nibbles of a group */, row int, src []byte /* [32] */) {
	for k := range 2 {
		first, second := binary.LittleEndian.Uint64(src[8*k:]), binary.LittleEndian.Uint64(src[16+8*k:])
		putWords(low[2*k*planeBytes:], row, first&lowNibbles|second&lowNibbles<<4)
		putWords(high[2*k*planeBytes:], row, first>>4&lowNibbles|second&^lowNibbles)
	}
}

func packQ4K(tile []byte, row int, src []byte) {
	tile, src = packHalves(tile, row, src, 140)
	packPairs(tile, row, src)
	groups, codes := tile[12*TileRows:], src[12:]
	for g := 0; g < 8; g += 2 {
		packWide(groups[g*nibbleGroup:], groups[(g+1)*nibbleGroup:], row, codes[16*g:])
	}
}

// packQ5K packs a Q5_K block, in which bit g of byte l of the fifth bits belongs to
// element l of group g.
func packQ5K(tile []byte, row int, src []byte) {
	const groupBytes = 8*planes + nibbleGroup
	tile, src = packHalves(tile, row, src, 172)
	packPairs(tile, row, src)
	groups, fifth, codes := tile[12*TileRows:], src[12:44], src[44:]
	for k := range 4 {
		x := binary.LittleEndian.Uint64(fifth[8*k:])
		for g := range 8 {
			// The multiplication gathers the lowest bits of eight bytes in the highest byte.
			bits := uint32(x >> g & lowBits * 0x0102040810204080 >> 56)
			orBits(groups[g*groupBytes+16*k:], row, bits)
			orBits(groups[g*groupBytes+16*k+8:], row, bits>>4)
		}
	}
	for g := 0; g < 8; g += 2 {
		packWide(groups[g*groupBytes+8*planes:], groups[(g+1)*groupBytes+8*planes:], row, codes[16*g:])
	}
}

// packQ6K packs a Q6_K block. Each half of the block has four groups: 64 bytes of
// nibbles, of which the first 32 hold groups 0 and 2, and 32 bytes of high bits,
// two bits per group.
func packQ6K(tile []byte, row int, src []byte) {
	const highBytes = 2 * planeBytes
	const groupBytes = highBytes + nibbleGroup
	tile[2*row], tile[2*row+1] = src[208], src[209]
	for s, scale := range src[192:208] {
		tile[2*TileRows+s*TileRows+row] = scale
	}
	groups := tile[18*TileRows:]
	for half := range 2 {
		low, high := src[64*half:], src[128+32*half:]
		of := groups[4*half*groupBytes:]
		for g := range 2 {
			packWide(of[g*groupBytes+highBytes:], of[(g+2)*groupBytes+highBytes:], row, low[32*g:])
		}
		for v := range 2 {
			w0, w1 := binary.LittleEndian.Uint32(high[16*v:]), binary.LittleEndian.Uint32(high[16*v+4:])
			w2, w3 := binary.LittleEndian.Uint32(high[16*v+8:]), binary.LittleEndian.Uint32(high[16*v+12:])
			for g := range 4 {
				word := w0>>(2*g)&lowPairs | w1>>(2*g)&lowPairs<<2 | w2>>(2*g)&lowPairs<<4 | w3>>(2*g)&lowPairs<<6
				binary.LittleEndian.PutUint32(of[g*groupBytes+v*planeBytes+4*row:], word)
			}
		}
	}
}
