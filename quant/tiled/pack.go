package tiled

import (
	"encoding/binary"

	"github.com/llmrun/llmrun/quant"
)

// LayoutVersion numbers the order of bytes that Pack writes. Files that hold
// tiles carry it: whoever changes the order raises it.
const LayoutVersion = 1

// Pack writes rows of a model file, all of one matrix, in tiles. dst has the
// size that Bytes gives; rows that fill up the last tile are zero bytes. src
// holds rows of type t, which must be Supported.
//
// What goes where is defined by format, rowBlock and store. The types that are
// in common use have a packer of their own, which moves a word at a time instead
// of taking blocks apart into elements: a model is packed when it is first used,
// and somebody waits.
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
		// Block by block, so that what is written stays in the nearest cache.
		for b := range cols / t.BlockElems() {
			block := tile[b*tileBlock:][:tileBlock]
			for row := range len(tileRows) / rowBytes {
				pack(block, row, tileRows[row*rowBytes+b*blockBytes:][:blockBytes])
			}
		}
	}
}

// packElements packs a block of any format, by way of its elements.
func (f *format) packElements(tile []byte, row int, src []byte) {
	var r rowBlock
	f.split(&r, src)
	f.store(tile, row, &r)
}

// packers write the block src of one row into a tile block that was cleared, as
// packElements does.
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
	nibbleGroup = 4 * planeBytes // bytes that a group's nibbles take in a tile
)

// packHalves copies the 16-bit numbers in front of a block and returns what
// follows them, in the block and in the tile.
func packHalves(tile []byte, row int, src []byte, rest int) (toTile, toSrc []byte) {
	for len(src) > rest {
		tile[2*row], tile[2*row+1] = src[0], src[1]
		tile, src = tile[2*TileRows:], src[2:]
	}
	return tile, src
}

// putWords writes two words of one row into two neighbouring planes.
func putWords(planes []byte, row int, words uint64) {
	at := row % TileRows * laneBytes // as it is; the compiler learns the range
	_ = planes[2*planeBytes-1]
	binary.LittleEndian.PutUint32(planes[at:], uint32(words))
	binary.LittleEndian.PutUint32(planes[planeBytes+at:], uint32(words>>32))
}

// packNibbles packs 32 elements whose nibbles are as in a tile: element i beside
// element 16+i.
func packNibbles(tile []byte, row int, src []byte) {
	tile, src = packHalves(tile, row, src, 16)
	putWords(tile, row, binary.LittleEndian.Uint64(src))
	putWords(tile[2*planeBytes:], row, binary.LittleEndian.Uint64(src[8:]))
}

// packMXFP4 is packNibbles with a byte before the nibbles.
func packMXFP4(tile []byte, row int, src []byte) {
	tile[row] = src[0]
	packNibbles(tile[TileRows:], row, src[1:])
}

// packI4Z is packNibbles with a byte between the scale and the nibbles.
func packI4Z(tile []byte, row int, src []byte) {
	tile, src = packHalves(tile, row, src, 17)
	packMXFP4(tile, row, src)
}

// packFiveBits is packNibbles with a word of fifth bits before the nibbles.
func packFiveBits(tile []byte, row int, src []byte) {
	tile, src = packHalves(tile, row, src, 20)
	high := binary.LittleEndian.Uint32(src)
	for p := range planes {
		orBits(tile[8*p:], row, high>>(4*p))
	}
	packNibbles(tile[8*planes:], row, src[4:])
}

// orBits puts four bits of a row into a plane of fifth bits.
func orBits(plane []byte, row int, bits uint32) {
	plane[row/2] |= byte(bits & 15 << (row % 2 * 4))
}

// packBytes packs 32 signed elements, which become unsigned ones.
func packBytes(tile []byte, row int, src []byte) {
	tile, src = packHalves(tile, row, src, 32)
	for k := range 4 {
		putWords(tile[2*k*planeBytes:], row, binary.LittleEndian.Uint64(src[8*k:])^signBits)
	}
}

// packPairs packs the 12 bytes of scales and mins of the K formats.
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

// packWide packs 32 bytes that hold one group in their low nibbles and another
// in their high ones.
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

// Bit g of byte l, of 32, is the fifth bit of element l of group g.
func packQ5K(tile []byte, row int, src []byte) {
	const groupBytes = 8*planes + nibbleGroup
	tile, src = packHalves(tile, row, src, 172)
	packPairs(tile, row, src)
	groups, fifth, codes := tile[12*TileRows:], src[12:44], src[44:]
	for k := range 4 {
		x := binary.LittleEndian.Uint64(fifth[8*k:])
		for g := range 8 {
			// The product gathers the lowest bits of eight bytes in the highest byte.
			bits := uint32(x >> g & lowBits * 0x0102040810204080 >> 56)
			orBits(groups[g*groupBytes+16*k:], row, bits)
			orBits(groups[g*groupBytes+16*k+8:], row, bits>>4)
		}
	}
	for g := 0; g < 8; g += 2 {
		packWide(groups[g*groupBytes+8*planes:], groups[(g+1)*groupBytes+8*planes:], row, codes[16*g:])
	}
}

// A half of a Q6_K block is four groups: 64 bytes of low nibbles, of which the
// first 32 hold groups 0 and 2, and 32 bytes with two bits for each group.
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
