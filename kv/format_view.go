package kv

import (
	"fmt"

	"github.com/llmrun/llmrun/tiering"
)

// The functions of this file view a KV head block of BlockBytes bytes, in a page of a
// sequence or in any other buffer. kv/FORMAT.md specifies the layout.

// Block8 is a view of a KV head block in codes.
type Block8 struct {
	// Keys of 8 bits are interleaved like weights in quant/tiled: in tiles of 16
	// tokens, 4 elements of each token next to each other. A code is the quantized
	// value plus 128. Keys of 4 bits are a tiled matrix that includes its scales.
	Keys      []uint8   // [BlockTokens/16][KeyCols/4][16][4]
	KeyScales []float32 // [BlockTokens]; nil for keys of 4 bits
	// Values of 8 bits are interleaved in pairs of tokens.
	Values []int8    // [BlockTokens/2][headDim][2]; nil in K8F8
	Floats []uint8   // [BlockTokens][headDim] in K8F8
	Scales []float32 // [BlockTokens] scales of the values
}

// Block8 views a KV head block in K8V8, K8F8 or K4V8.
func (f Format) Block8(block []byte, headDim int) (b Block8) {
	f.check(block, headDim, f.Codes())
	keys, values := block[:f.keyBytes(headDim)], block[f.keyBytes(headDim):]
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

// Block16 views a KV head block in F16: keys and values, both [BlockTokens, headDim]
// elements of 2 bytes.
func (f Format) Block16(block []byte, headDim int) (k, v []byte) {
	f.check(block, headDim, f == F16)
	return block[:len(block)/2], block[len(block)/2:]
}

// Block32 views a KV head block in F32: keys and values, both [BlockTokens, headDim].
func (f Format) Block32(block []byte, headDim int) (k, v []float32) {
	f.check(block, headDim, f == F32)
	all := view[float32](block, 2*BlockTokens*headDim)
	return all[:BlockTokens*headDim], all[BlockTokens*headDim:]
}

// check panics if a caller passes a block of another format or size.
func (f Format) check(block []byte, headDim int, fits bool) {
	if !fits || len(block) != f.BlockBytes(headDim) {
		panic(fmt.Sprintf("kv: %d bytes are not a KV head block of %d elements in %s", len(block), headDim, f))
	}
}

// view returns bytes of a page as numbers. Pages and their parts are aligned for
// every element type.
func view[T tiering.Element](b []byte, n int) []T {
	out, err := tiering.View[T](b, n)
	if err != nil {
		panic(err) // a bug in the layout, not bad input
	}
	return out
}
