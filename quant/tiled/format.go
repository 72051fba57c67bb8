package tiled

import (
	"fmt"

	"github.com/llmrun/llmrun/quant"
)

// TileRows is the number of interleaved rows in a tile: one row per 32-bit lane
// of an AVX-512 register, or of several narrower registers.
const TileRows = 16

// GroupElems is the number of elements that share an activation scale.
const GroupElems = 32

// laneBytes is the number of codes that a 32-bit lane of a dot-product
// instruction multiplies.
const laneBytes = 4

// planeBytes is the size of a plane: laneBytes adjacent codes of every row of a
// tile. One AVX-512 dot-product instruction reads one plane.
const planeBytes = TileRows * laneBytes

// planes is the number of planes in a group.
const planes = GroupElems / laneBytes

// format describes the tile layout of a type. A tile is a sequence of tile blocks;
// each stores the same block of TileRows rows in this order:
//
//	halves   [halves][TileRows] binary16: scale, then offset
//	exponent [TileRows] bytes, if the scale is a power of two
//	zeros    [TileRows] bytes, if each row has its own zero point
//	scales   of the sub-blocks, see scaleKind
//	groups   for each group of 32 elements:
//	  the high bits of 5-bit and 6-bit codes, then
//	  nibbles: byte 4·row+j of vector p holds element 4p+j in the low and
//	  element 16+4p+j in the high nibble; 8-bit codes: it holds element 4p+j
//
// The fifth bit of element 4p+j is bit 4·row+j of the p-th 64-bit word. The
// two high bits of a 6-bit element 4p+j are field p%4 (of 2 bits) of byte
// 4·row+j of vector p/4.
type format struct {
	halves   int
	exponent bool
	zeros    bool // each row and group has its own zero point
	scales   scaleKind
	bits     int        // of a stored code: 4, 5, 6 or 8
	zero     int        // zero point of decoded codes
	table    *[16]uint8 // decoded code of each nibble; nil unless bits is 4
	block    blockKind
	low      *lowFormat // the other layout, of the low-bit formats; bits, scales and block do not apply
}

// blockKind identifies the block layout of a model file; split and join switch on
// it. Function values would make their arguments escape to the heap, and the
// embedding lookup calls UnpackRow for each token.
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
	zeroBlock // a half, a zero point, nibbles
)

// scaleKind identifies the layout of sub-block scales in a tile block.
type scaleKind uint8

const (
	oneScale scaleKind = iota // no sub-blocks: the half is the scale
	pairs6                    // 8 scales and 8 mins of 6 bits: [8][16] low nibbles (scale low, min high), [4][16] high bits of sub-blocks s (low nibble) and s+4
	bytes16                   // 16 signed bytes: [16][16]
	six8                      // 8 scales of 6 bits with zero point 32: [4][16] low nibbles of sub-blocks s (low nibble) and s+4, [2][16] high bits of sub-blocks s, s+2, s+4, s+6
)

// bytes returns the size of the sub-block scales in a tile block.
func (k scaleKind) bytes() int {
	return [...]int{oneScale: 0, pairs6: 12 * TileRows, bytes16: 16 * TileRows, six8: 6 * TileRows}[k]
}

// halfGroups reports whether each half of a group has its own factor, as in Q6_K.
func (f *format) halfGroups() bool { return f.scales == bytes16 || f.low != nil && f.low.halves }

// hasMin reports whether the format subtracts a min per row and group.
func (f *format) hasMin() bool { return f.halves == 2 || f.zeros }

// headBytes returns the size of a tile block's head, all that precedes its groups.
func (f *format) headBytes() int {
	n := f.halves*2*TileRows + f.scales.bytes()
	if f.exponent || f.zeros {
		n += TileRows
	}
	return n
}

// groupBytes returns the size of one group's codes for all rows of a tile.
func (f *format) groupBytes() int { return f.bits * GroupElems * TileRows / 8 }

// groups returns the number of groups in a tile block of blockBytes bytes.
func (f *format) groups(blockBytes int) int {
	if f.low != nil {
		return f.low.groups
	}
	return (blockBytes - f.headBytes()) / f.groupBytes()
}

// rowBlock holds the fields of one row's block. The fields keep the stored bits
// unconverted, so that join restores the original bytes.
type rowBlock struct {
	half     [2]uint16
	exponent byte
	zero     byte
	scale    [16]uint8
	min      [16]uint8
	code     [256]uint8
}

// formats maps each supported type to its tile layout.
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

	quant.IQ1_S:   lowBitFormat(quant.IQ1_S, false, 0, section{2, 1}, section{4, 8}, section{2, 8}),
	quant.IQ1_M:   lowBitFormat(quant.IQ1_M, true, spreadHalf, section{4, 8}, section{2, 8}, section{2, 4}),
	quant.IQ2_XXS: lowBitFormat(quant.IQ2_XXS, false, 0, section{2, 1}, section{4, 16}),
	quant.IQ2_XS:  lowBitFormat(quant.IQ2_XS, true, 0, section{2, 1}, section{4, 16}, section{1, 8}),
	quant.IQ2_S:   lowBitFormat(quant.IQ2_S, true, 0, section{2, 1}, section{4, 16}, section{1, 16}),
	quant.IQ3_XXS: lowBitFormat(quant.IQ3_XXS, false, 0, section{2, 1}, section{4, 24}),
	quant.IQ3_S:   lowBitFormat(quant.IQ3_S, false, 0, section{2, 1}, section{4, 16}, section{1, 8}, section{4, 8}, section{1, 4}),
	quant.TQ1_0:   lowBitFormat(quant.TQ1_0, false, 52, section{4, 13}, section{2, 1}),
	quant.TQ2_0:   lowBitFormat(quant.TQ2_0, false, 64, section{4, 16}, section{2, 1}),
	quant.Q1_0:    lowBitFormat(quant.Q1_0, false, 0, section{2, 1}, section{4, 4}),
	quant.Q2_0:    lowBitFormat(quant.Q2_0, false, 0, section{2, 1}, section{4, 4}),
	quant.NVFP4:   lowBitFormat(quant.NVFP4, true, noHalf, section{1, 4}, section{4, 8}),
}

// Decoding tables of 4-bit codes. A linear format maps a code to itself; a
// non-linear format maps it to its value plus the format's zero point.
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

// Fits reports whether Pack supports type t with cols elements per row.
func Fits(t quant.Type, cols int) bool { return Supported(t) && cols%GroupElems == 0 }

// Bytes returns the size of a tiled matrix, with rows padded to a multiple of
// TileRows.
func Bytes(t quant.Type, rows, cols int) (int, error) {
	if !Supported(t) {
		return 0, fmt.Errorf("tiled: type %s has no tiled form", t)
	}
	n, err := t.RowBytes(cols)
	if err != nil {
		return 0, err
	}
	if rows < 0 || cols%GroupElems != 0 {
		return 0, fmt.Errorf("tiled: invalid shape [%d, %d]: rows must not be negative and columns must be a multiple of %d", rows, cols, GroupElems)
	}
	return (rows + TileRows - 1) / TileRows * TileRows * n, nil
}
