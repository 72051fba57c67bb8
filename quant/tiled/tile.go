package tiled

import (
	"encoding/binary"

	"github.com/llmrun/llmrun/quant"
)

// UnpackRow extracts one row of a tiled matrix to dst in the model file's layout.
// tiles holds the whole matrix, which has cols elements per row.
func UnpackRow(dst []byte, t quant.Type, tiles []byte, cols, row int) {
	f, blockBytes := formats[t], t.BlockBytes()
	rowBytes := cols / t.BlockElems() * blockBytes
	tileBlock := blockBytes * TileRows
	tile := tiles[row/TileRows*TileRows*rowBytes:]
	var r rowBlock
	for b := range cols / t.BlockElems() {
		f.load(&r, tile[b*tileBlock:][:tileBlock], row%TileRows)
		f.join(&r, dst[b*blockBytes:][:blockBytes])
	}
}

// store writes one row's block to a cleared tile block.
func (f *format) store(tile []byte, row int, r *rowBlock) {
	if f.low != nil {
		f.low.store(tile, row, r.code[:])
		return
	}
	head := tile
	for i := range f.halves {
		binary.LittleEndian.PutUint16(head[2*row:], r.half[i])
		head = head[2*TileRows:]
	}
	if f.exponent {
		head[row] = r.exponent
	}
	if f.zeros {
		head[row] = r.zero
	}
	f.storeScales(head, row, r)
	groups := tile[f.headBytes():]
	size := f.groupBytes()
	for g := range len(groups) / size {
		f.storeCodes(groups[g*size:][:size], row, r.code[g*GroupElems:][:GroupElems])
	}
}

// load is the inverse of store.
func (f *format) load(r *rowBlock, tile []byte, row int) {
	if f.low != nil {
		block := r.code[:len(tile)/TileRows]
		f.low.load(block, tile, row)
		r.half[0] = f.low.half(block)
		return
	}
	f.loadHead(r, tile, row)
	groups := tile[f.headBytes():]
	size := f.groupBytes()
	for g := range len(groups) / size {
		f.loadCodes(r.code[g*GroupElems:][:GroupElems], groups[g*size:][:size], row)
	}
}

// loadHead reads one row's fields from the head of a tile block, all except the
// codes.
func (f *format) loadHead(r *rowBlock, tile []byte, row int) {
	head := tile
	for i := range f.halves {
		r.half[i] = binary.LittleEndian.Uint16(head[2*row:])
		head = head[2*TileRows:]
	}
	if f.exponent {
		r.exponent = head[row]
	}
	if f.zeros {
		r.zero = head[row]
	}
	f.loadScales(r, head, row)
}

func (f *format) storeScales(head []byte, row int, r *rowBlock) {
	switch f.scales {
	case pairs6:
		for s := range 8 {
			head[s*TileRows+row] = r.scale[s]&15 | r.min[s]<<4
			head[(8+s%4)*TileRows+row] |= (r.scale[s]>>4 | r.min[s]>>4<<2) << (4 * (s / 4))
		}
	case bytes16:
		for s := range 16 {
			head[s*TileRows+row] = r.scale[s]
		}
	case six8:
		for s := range 8 {
			head[s%4*TileRows+row] |= r.scale[s] & 15 << (4 * (s / 4))
			head[(4+s%2)*TileRows+row] |= r.scale[s] >> 4 << (2 * (s / 2))
		}
	}
}

func (f *format) loadScales(r *rowBlock, head []byte, row int) {
	switch f.scales {
	case pairs6:
		for s := range 8 {
			low := head[s*TileRows+row]
			high := head[(8+s%4)*TileRows+row] >> (4 * (s / 4))
			r.scale[s], r.min[s] = low&15|high&3<<4, low>>4|high>>2&3<<4
		}
	case bytes16:
		for s := range 16 {
			r.scale[s] = head[s*TileRows+row]
		}
	case six8:
		for s := range 8 {
			low := head[s%4*TileRows+row] >> (4 * (s / 4)) & 15
			r.scale[s] = low | head[(4+s%2)*TileRows+row]>>(2*(s/2))&3<<4
		}
	}
}

// storeCodes writes one row's codes of a group in the tile layout that format
// describes.
func (f *format) storeCodes(group []byte, row int, code []uint8 /* [GroupElems] */) {
	low := group[len(group)-f.bits/4*4*planeBytes:] // nibbles fill 4 planes, bytes 8
	for i, c := range code {
		p, at := i/laneBytes, row*laneBytes+i%laneBytes
		switch f.bits {
		case 8:
			low[p*planeBytes+at] = c
			continue
		case 5:
			group[p*8+at/8] |= c >> 4 << (at % 8)
		case 6:
			group[p/4*planeBytes+at] |= c >> 4 << (2 * (p % 4))
		}
		low[p%4*planeBytes+at] |= c & 15 << (p / 4 * 4)
	}
}

// loadCodes is the inverse of storeCodes.
func (f *format) loadCodes(code []uint8 /* [GroupElems] */, group []byte, row int) {
	low := group[len(group)-f.bits/4*4*planeBytes:]
	for i := range code {
		p, at := i/laneBytes, row*laneBytes+i%laneBytes
		if f.bits == 8 {
			code[i] = low[p*planeBytes+at]
			continue
		}
		c := low[p%4*planeBytes+at] >> (p / 4 * 4) & 15
		switch f.bits {
		case 5:
			c |= group[p*8+at/8] >> (at % 8) & 1 << 4
		case 6:
			c |= group[p/4*planeBytes+at] >> (2 * (p % 4)) & 3 << 4
		}
		code[i] = c
	}
}
