package tiled

import (
	"fmt"

	"github.com/llmrun/llmrun/quant"
)

// TileRows is how many rows of a matrix are interleaved: the 32-bit lanes of
// the widest vector register, or a few narrower ones.
const TileRows = 16

// GroupElems is how many elements of a row share an activation scale.
const GroupElems = 32

// laneBytes is how many elements of a row one lane takes in an instruction.
const laneBytes = 4

// planeBytes is one instruction's worth of codes: laneBytes elements of every
// row of a tile.
const planeBytes = TileRows * laneBytes

// planes is how many such steps make a group.
const planes = GroupElems / laneBytes

// format describes how the codes and scales of a type lie in a tile. A tile
// holds, for each block of the type, the bytes of TileRows blocks:
//
//	halves   numbers of 16 bits, each for all rows (scale, then offset)
//	exponent one byte of each row, in formats whose scale is a power of two
//	zeros    one byte of each row, in formats whose rows have a zero of their own
//	scales   of the block's sub-blocks, see scaleKind
//	groups   for each group of 32 elements, its codes:
//	  high bits (formats of 5 and 6 bits), then
//	  low nibbles: byte 4·row+j of vector p holds element 4p+j in its low and
//	  element 16+4p+j in its high half; or whole bytes: element 4p+j of vector p
//
// The fifth bit of element 4p+j is bit 4·row+j of the p-th 64-bit word. The
// two high bits of a 6-bit element 4p+j are field p%4 (of 2 bits) of byte
// 4·row+j of vector p/4.
type format struct {
	halves   int
	exponent bool
	zeros    bool // the code that stands for nothing belongs to row and group
	scales   scaleKind
	bits     int        // of a code as stored: 4, 5, 6 or 8
	zero     int        // what a code is less before it is scaled
	table    *[16]uint8 // the codes that nibbles stand for, in formats of 4 bits
	block    blockKind
}

// blockKind says how model files lay out a block, see split and join. It is no pair of
// functions: what is handed to one of those that nobody knows beforehand goes to the
// heap, and rows of an embedding are taken out of tiles for each token.
type blockKind uint8

const (
	nibbleBlock  blockKind = iota // halves, then nibbles
	fiveBitBlock                  // halves, fifth bits, nibbles
	byteBlock                     // a half, then signed bytes
	q4KBlock
	q5KBlock
	q6KBlock
	xsBlock   // IQ4_XS
	mxBlock   // an exponent, then nibbles
	zeroBlock // a half, the row's zero, nibbles
)

// scaleKind says how the scales of sub-blocks are stored.
type scaleKind uint8

const (
	oneScale scaleKind = iota // the half is the scale
	pairs6                    // 8 scales and 8 mins of 6 bits: [8][16] low nibbles of both, [4][16] high bits of subs s (low half) and s+4
	bytes16                   // 16 signed bytes: [16][16]
	six8                      // 8 scales of 6 bits less 32: [4][16] low nibbles of subs s (low half) and s+4, [2][16] high bits of subs s, s+2, s+4, s+6
)

// bytesOf returns the size of the scales in a tile block.
func (k scaleKind) bytes() int {
	return [...]int{oneScale: 0, pairs6: 12 * TileRows, bytes16: 16 * TileRows, six8: 6 * TileRows}[k]
}

// halfGroups reports whether the sum of each half of a group has a factor of its own.
func (f *format) halfGroups() bool { return f.scales == bytes16 }

// hasMin reports whether weights have an offset that is not the format's zero.
func (f *format) hasMin() bool { return f.halves == 2 || f.zeros }

// headBytes is what stands before the groups of a tile block.
func (f *format) headBytes() int {
	n := f.halves*2*TileRows + f.scales.bytes()
	if f.exponent || f.zeros {
		n += TileRows
	}
	return n
}

// groupBytes is the size of one group's codes in a tile.
func (f *format) groupBytes() int { return f.bits * GroupElems * TileRows / 8 }

// groups returns how many groups a tile block of that many bytes has.
func (f *format) groups(blockBytes int) int { return (blockBytes - f.headBytes()) / f.groupBytes() }

// rowBlock is a block of one row, taken apart. Every field holds bits as they
// are stored: nothing is computed, so that joining gives the same bytes.
type rowBlock struct {
	half     [2]uint16
	exponent byte
	zero     byte
	scale    [16]uint8
	min      [16]uint8
	code     [256]uint8
}

// formats lists the types that have a tiled form.
var formats = map[quant.Type]*format{
	quant.Q4_0:   {halves: 1, bits: 4, zero: 8, table: &evenly, block: nibbleBlock},
	quant.Q4_1:   {halves: 2, bits: 4, table: &evenly, block: nibbleBlock},
	quant.Q5_0:   {halves: 1, bits: 5, zero: 16, block: fiveBitBlock},
	quant.Q5_1:   {halves: 2, bits: 5, block: fiveBitBlock},
	quant.Q8_0:   {halves: 1, bits: 8, zero: 128, block: byteBlock},
	quant.Q4_K:   {halves: 2, scales: pairs6, bits: 4, table: &evenly, block: q4KBlock},
	quant.Q5_K:   {halves: 2, scales: pairs6, bits: 5, block: q5KBlock},
	quant.Q6_K:   {halves: 1, scales: bytes16, bits: 6, zero: 32, block: q6KBlock},
	quant.IQ4_NL: {halves: 1, bits: 4, zero: 128, table: &nonlinear, block: nibbleBlock},
	quant.IQ4_XS: {halves: 1, scales: six8, bits: 4, zero: 128, table: &nonlinear, block: xsBlock},
	quant.MXFP4:  {exponent: true, bits: 4, zero: 16, table: &e2m1, block: mxBlock},
	quant.I4Z:    {halves: 1, zeros: true, bits: 4, table: &evenly, block: zeroBlock},
	quant.NF4:    {halves: 1, bits: 4, zero: 128, table: &normal, block: nibbleBlock},
}

// What 4-bit codes stand for: themselves, or the values of formats that are not
// evenly spaced, made unsigned by the format's zero.
var (
	evenly    = [16]uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	nonlinear = unsigned(128, -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
	normal    = unsigned(128, -127, -88, -67, -50, -36, -23, -12, 0, 10, 20, 31, 43, 56, 71, 92, 127)
	e2m1      = unsigned(16, 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12) // twice the value
)

func unsigned(zero int, values ...int) (codes [16]uint8) {
	for i, v := range values {
		codes[i] = uint8(v + zero)
	}
	return codes
}

// Supported reports whether t has a tiled form.
func Supported(t quant.Type) bool { return formats[t] != nil }

// Fits reports whether a matrix with rows of so many elements has a tiled form.
func Fits(t quant.Type, cols int) bool { return Supported(t) && cols%GroupElems == 0 }

// Bytes returns the size of a tiled matrix. Rows are filled up to whole tiles.
func Bytes(t quant.Type, rows, cols int) (int, error) {
	if !Supported(t) {
		return 0, fmt.Errorf("tiled: type %s has no tiled form", t)
	}
	n, err := t.RowBytes(cols)
	if err != nil {
		return 0, err
	}
	if rows < 0 || cols%GroupElems != 0 {
		return 0, fmt.Errorf("tiled: a matrix of %d rows of %d elements", rows, cols)
	}
	return (rows + TileRows - 1) / TileRows * TileRows * n, nil
}
