package tiled

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/llmrun/llmrun/quant"
)

// Key4 is the type of 4-bit keys. A block of keys is a tiled matrix of this type
// with KeyBlock rows, one per key. Q4_1 has a scale and an offset per 32 elements,
// which suits keys: some channels are much larger than others, and the elements of
// a channel often have the same sign.
const Key4 = quant.Q4_1

// Scores4 is Scores for 4-bit keys. It uses the arithmetic of Multiply, so keys and
// next are blocks of the size that Bytes(Key4, KeyBlock, cols) returns:
//
//	i   = Σ code·q           over the group; exact
//	acc = fma(float32(i)·scale, d, acc)
//	acc = fma(d·Σ q, offset, acc)
func Scores4(y []float32 /* [PaddedTokens(queries), KeyBlock] */, keys, next []byte, a *Activations, s *Scratch) {
	size := key4Bytes(a.cols)
	if len(y) < paddedTokens(a.tokens)*KeyBlock || min(len(keys), len(next)) < size || a.cols == 0 {
		panic(fmt.Sprintf("tiled: scores of queries [%d, %d]: keys, next or results are too short", a.tokens, a.cols))
	}
	args := &s.score
	*args = scoreArgs{codes: &keys[0], next: &next[0], groups: a.cols / GroupElems}
	for i := 0; i*TileTokens < a.tokens; i++ {
		args.useTile(a, i, y)
		active.scores4(args, s)
	}
}

// key4Bytes returns the size of a block of 4-bit keys with cols elements each.
func key4Bytes(cols int) int { return KeyBlock * cols / GroupElems * Key4.BlockBytes() }

// matrixScores4 computes Scores4 for one tile of queries with a path's matmul
// kernels.
func matrixScores4(path kernels, a *scoreArgs, s *Scratch) {
	f := formats[Key4]
	tiles := unsafe.Slice(a.codes, key4Bytes(a.groups*GroupElems))
	size := len(tiles) / (KeyBlock / KeyTile)
	s.use(0, a.width)
	if a.width <= maxSmallTokens {
		s.small = smallArgs{
			sums: &s.sums[0], tile: &tiles[0], tiles: KeyBlock / KeyTile, size: size,
			x: a.x, dx: a.dx, shift: a.shift, table: f.table, blocks: a.groups, width: a.width, panel: &s.panel,
		}
		if path.mulSmall(Key4, &s.small) {
			s.copy = copyArgs{
				y: a.y, rows: KeyBlock, from: &s.sums[0], size: a.width * TileRows, tiles: KeyBlock / KeyTile, tokens: a.width,
			}
			path.copyResults(&s.copy)
			return
		}
	}
	for t := range KeyBlock / KeyTile {
		s.use(0, a.width)
		s.panelScores4(path, f, a, tiles[t*size:][:size])
		s.copy = copyArgs{
			y: &unsafe.Slice(a.y, a.width*KeyBlock)[t*KeyTile], rows: KeyBlock, from: &s.sums[0], size: a.width * TileRows, tiles: 1, tokens: a.width,
		}
		path.copyResults(&s.copy)
	}
}

// panelScores4 computes the scores of one tile of keys with the GEMM kernel, one
// panel after another.
func (s *Scratch) panelScores4(path kernels, f *format, a *scoreArgs, tile []byte) {
	x, dx := unsafe.Slice(a.x, a.groups*a.width*GroupElems), unsafe.Slice(a.dx, a.groups*a.width)
	shift := unsafe.Slice(a.shift, a.groups*a.width)
	groupBytes := len(tile) / a.groups
	s.panel.reset(a.width)
	for g := 0; g < a.groups; g += panelGroups {
		n := min(panelGroups, a.groups-g)
		path.decode(&s.panel, f, tile[g*groupBytes:(g+n)*groupBytes], n)
		s.args = kernelArgs{
			sums: &s.sums[0], mins: &s.panel.mins[0],
			x: &x[g*a.width*GroupElems], dx: &dx[g*a.width], shift: &shift[g*a.width],
			groups: n, width: a.width, halves: 1, nibbles: true, tiles: 1,
			skip: a.groups - n, products: &s.products[0],
		}
		s.args.usePanel(&s.panel)
		path.mulPanel(&s.args)
	}
}

func (k portable) scores4(a *scoreArgs, s *Scratch) { matrixScores4(k, a, s) }

// PutKey4 quantizes a key to 4 bits and stores it in a row of a block of keys with
// cols elements. It pads a shorter x with zeros and writes only the bytes of that
// row. It quantizes each group of 32 elements separately:
//
//	scale  = F16((high-low)/15), offset = F16(low)
//	code   = round((x-offset)·(1/scale)) clamped to 0…15, ties to even
//
// If an element of a group is infinite or NaN, or the scale or offset exceeds the
// range of binary16, every score of the key is NaN.
func PutKey4(keys []byte, row, cols int, x []float32 /* [at most cols] */) {
	block := keys[row/KeyTile*KeyTile*cols/GroupElems*Key4.BlockBytes():]
	for at := 0; at < cols; at += GroupElems {
		var g [GroupElems]float32
		copy(g[:], x[min(at, len(x)):])
		putGroup4(block[at/GroupElems*KeyTile*Key4.BlockBytes():][:KeyTile*Key4.BlockBytes()], row%KeyTile, &g)
	}
}

// putGroup4 quantizes a group and stores it in a row of a tile block.
func putGroup4(block []byte, row int, x *[GroupElems]float32) {
	low, high, largest := x[0], x[0], uint32(0)
	for _, v := range x {
		if v < low {
			low = v
		}
		if v > high {
			high = v
		}
		largest = max(largest, math.Float32bits(v)&^signMask)
	}
	scale, offset := quant.F32ToF16((high-low)/15), quant.F32ToF16(low)
	var words [2]uint64
	if s, o := quant.F16ToF32(scale), quant.F16ToF32(offset); largest >= infBits || s > maxHalf || o < -maxHalf || o > maxHalf {
		scale, offset = halfNaN, halfNaN
	} else if s > 0 {
		words = codes4(x, 1/s, o)
	}
	binary.LittleEndian.PutUint16(block[2*row:], scale)
	binary.LittleEndian.PutUint16(block[2*TileRows+2*row:], offset)
	putWords(block[4*TileRows:], row, words[0])
	putWords(block[4*TileRows+2*planeBytes:], row, words[1])
}

// codes4 returns the 4-bit codes of a group; elements i and 16+i share byte i.
func codes4(x *[GroupElems]float32, inverse, offset float32) (words [2]uint64) {
	for i := range GroupElems / 2 {
		a, b := code4(float32((x[i]-offset)*inverse)), code4(float32((x[GroupElems/2+i]-offset)*inverse))
		words[i/8] |= uint64(a|b<<4) << (i % 8 * 8)
	}
	return words
}

// code4 clamps v to 0…15 and rounds it, ties to even. Adding startFloat rounds,
// because the unit in the last place of the sum is 1.
func code4(v float32) uint32 {
	if v < 0 {
		v = 0
	}
	if v > 15 {
		v = 15
	}
	return math.Float32bits(v+startFloat) & 15
}

// The largest finite binary16 number and the bits of a binary16 NaN.
const (
	maxHalf = 65504
	halfNaN = 0x7E00
)
