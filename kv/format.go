package kv

import (
	"fmt"

	"github.com/llmrun/llmrun/tiering"
)

// Format is the precision in which keys and values are kept.
type Format uint8

// The formats.
const (
	// F32 keeps them as they were computed.
	F32 Format = iota
	// K8V8 rounds each key head and value head of a token to 8 bits with a
	// scale of its own. A token is rounded once, when it is put; later tokens
	// never touch it.
	K8V8
)

// ParseFormat returns the format of a name: "f32" or "k8v8".
func ParseFormat(name string) (Format, error) {
	for f, n := range formatNames {
		if n == name {
			return Format(f), nil
		}
	}
	return F32, fmt.Errorf("kv: there is no format %q; there are f32 and k8v8", name)
}

var formatNames = [...]string{F32: "f32", K8V8: "k8v8"}

// String returns the format's name.
func (f Format) String() string { return formatNames[f] }

// keyGroup is the multiple to which 8-bit keys are filled up.
const keyGroup = 32

// KeyCols returns the bytes of an 8-bit key: its elements, filled up with zeros
// to what the integer kernels take in one step.
func KeyCols(headDim int) int { return (headDim + keyGroup - 1) / keyGroup * keyGroup }

// headBytes returns the bytes that a head's keys and values of a block take.
func (f Format) headBytes(headDim int) int {
	if f == K8V8 {
		return BlockTokens * (KeyCols(headDim) + 4 + headDim + 4)
	}
	return BlockTokens * 2 * 4 * headDim
}

// Block8 is one head's share of a block in 8 bits.
type Block8 struct {
	// Keys are interleaved as weights are in quant/tiled: in tiles of 16
	// tokens, 4 elements of each token side by side. A code is the rounded
	// value plus 128.
	Keys      []uint8   // [BlockTokens/16][KeyCols/4][16][4]
	KeyScales []float32 // [BlockTokens]
	// Values are interleaved in pairs of tokens.
	Values []int8    // [BlockTokens/2][headDim][2]
	Scales []float32 // [BlockTokens] of the values
}

// block32 divides a head's share of a block in F32: keys and values, both
// [BlockTokens, headDim].
func block32(page []byte, headDim int) (k, v []float32) {
	all := view[float32](page, 2*BlockTokens*headDim)
	return all[:BlockTokens*headDim], all[BlockTokens*headDim:]
}

// block8 divides a head's share of a block in K8V8.
func block8(page []byte, headDim int) Block8 {
	cut := func(n int) []byte {
		part := page[:n:n]
		page = page[n:]
		return part
	}
	return Block8{
		Keys:      cut(BlockTokens * KeyCols(headDim)),
		KeyScales: view[float32](cut(BlockTokens*4), BlockTokens),
		Values:    view[int8](cut(BlockTokens*headDim), BlockTokens*headDim),
		Scales:    view[float32](cut(BlockTokens*4), BlockTokens),
	}
}

// keyTile is how many tokens' keys are interleaved.
const keyTile = 16

// put rounds and stores the key and value of the token in row.
func (b *Block8) put(row int, k, v []float32 /* [headDim] */) {
	scale, inverse := roundingScale(k)
	b.KeyScales[row] = scale
	cols := len(b.Keys) / BlockTokens
	tile := b.Keys[row/keyTile*keyTile*cols:]
	at := row % keyTile * 4
	for i := range cols {
		code := int8(0)
		if i < len(k) {
			code = round8(k[i] * inverse)
		}
		tile[i/4*keyTile*4+at+i%4] = uint8(code) ^ 0x80
	}
	scale, inverse = roundingScale(v)
	b.Scales[row] = scale
	out := b.Values[row/2*2*len(v)+row%2:]
	for i, x := range v {
		out[2*i] = round8(x * inverse)
	}
}

// roundingScale returns the scale that maps the largest magnitude to 127, and
// its inverse; both are 0 for all zeros. A NaN or infinity makes the scale so,
// and with it every result: a broken token must not pass for a sound one.
func roundingScale(x []float32) (scale, inverse float32) {
	var most float32
	for _, v := range x {
		if v < 0 {
			v = -v
		}
		if v > most || v != v {
			most = v
		}
	}
	if most == 0 {
		return 0, 0
	}
	return most / 127, 127 / most
}

// round8 rounds to the nearest integer, halves to even. Adding and subtracting
// 1.5·2^23 leaves no room for a fraction; x is at most 127 in magnitude.
func round8(x float32) int8 {
	const magic = 3 << 22
	return int8(float32(x+magic) - magic)
}

// view looks at bytes of a page as numbers. Pages and the parts of a page are
// aligned for it.
func view[T tiering.Element](b []byte, n int) []T {
	out, err := tiering.View[T](b, n)
	if err != nil {
		panic(err) // the layout above is at fault, not an input
	}
	return out
}
