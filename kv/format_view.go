package kv

import (
	"fmt"

	"github.com/llmrun/llmrun/tiering"
)

// The functions of this file look at one head's share of a block, BlockBytes
// long, wherever it lies: in a page of a sequence, or in a buffer into which a
// page was read. kv/FORMAT.md says what is where.

// Block8 is one head's share of a block in codes.
type Block8 struct {
	// Keys of 8 bits are interleaved as weights are in quant/tiled: in tiles of
	// 16 tokens, 4 elements of each token side by side; a code is the rounded
	// value plus 128. Keys of 4 bits are a tiled matrix, with scales inside.
	Keys      []uint8   // [BlockTokens/16][KeyCols/4][16][4]
	KeyScales []float32 // [BlockTokens]; nil for keys of 4 bits
	// Values of 8 bits are interleaved in pairs of tokens.
	Values []int8    // [BlockTokens/2][headDim][2]; nil in K8F8
	Floats []uint8   // [BlockTokens][headDim] in K8F8
	Scales []float32 // [BlockTokens] of the values
}

// Block8 divides a share in K8V8, K8F8 or K4V8.
func (f Format) Block8(share []byte, headDim int) (b Block8) {
	f.check(share, headDim, f.Codes())
	keys, values := share[:f.keyBytes(headDim)], share[f.keyBytes(headDim):]
	b.Keys = keys
	if f != K4V8 {
		codes := BlockTokens * KeyCols(headDim)
		b.Keys, b.KeyScales = keys[:codes:codes], view[float32](keys[codes:], BlockTokens)
	}
	b.Scales = view[float32](values[len(values)-BlockTokens*scaleBytes:], BlockTokens)
	if n := BlockTokens * headDim; f == K8F8 {
		b.Floats = values[:n:n]
	} else {
		b.Values = view[int8](values[:n:n], n)
	}
	return b
}

// Block16 divides a share in F16: keys and values, both [BlockTokens, headDim]
// numbers of 2 bytes.
func (f Format) Block16(share []byte, headDim int) (k, v []byte) {
	f.check(share, headDim, f == F16)
	return share[:len(share)/2], share[len(share)/2:]
}

// Block32 divides a share in F32: keys and values, both [BlockTokens, headDim].
func (f Format) Block32(share []byte, headDim int) (k, v []float32) {
	f.check(share, headDim, f == F32)
	all := view[float32](share, 2*BlockTokens*headDim)
	return all[:BlockTokens*headDim], all[BlockTokens*headDim:]
}

// check panics where a caller mistakes one format or size for another.
func (f Format) check(share []byte, headDim int, fits bool) {
	if !fits || len(share) != f.BlockBytes(headDim) {
		panic(fmt.Sprintf("kv: %d bytes are not a head's share of %d elements in %s", len(share), headDim, f))
	}
}

// Block is Block32 of the shape's format.
func (s Shape) Block(share []byte) (k, v []float32) { return s.Format.Block32(share, s.HeadDim) }

// Block16 is Block16 of the shape's format.
func (s Shape) Block16(share []byte) (k, v []byte) { return s.Format.Block16(share, s.HeadDim) }

// Block8 is Block8 of the shape's format.
func (s Shape) Block8(share []byte) Block8 { return s.Format.Block8(share, s.HeadDim) }

// view looks at bytes of a page as numbers. Pages and the parts of a page are
// aligned for it.
func view[T tiering.Element](b []byte, n int) []T {
	out, err := tiering.View[T](b, n)
	if err != nil {
		panic(err) // the layout above is at fault, not an input
	}
	return out
}
