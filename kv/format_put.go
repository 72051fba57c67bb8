package kv

import (
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
)

// put rounds and stores the key and value of a token in row of a head's share of
// a block. It writes that token's bytes and no other.
func (f Format) put(share []byte, row int, k, v []float32 /* [headDim] */) {
	d := len(k)
	switch f {
	case F32:
		keys, values := f.Block32(share, d)
		copy(keys[row*d:], k)
		copy(values[row*d:], v)
	case F16:
		keys, values := f.Block16(share, d)
		quant.RoundF16(keys[2*row*d:], k)
		quant.RoundF16(values[2*row*d:], v)
	default:
		b := f.Block8(share, d)
		b.putKey(row, k)
		b.putValue(row, v)
	}
}

// keyTile is how many tokens' keys are interleaved, and keyStep how far apart
// the fours of a key of 8 bits are.
const (
	keyTile = tiled.KeyTile
	keyStep = 4 * keyTile
)

// putKey stores a key in codes.
func (b *Block8) putKey(row int, k []float32 /* [headDim] */) {
	cols := KeyCols(len(k))
	if b.KeyScales == nil {
		tiled.PutKey4(b.Keys, row, cols, k)
		return
	}
	codes := b.Keys[row/keyTile*keyTile*cols+row%keyTile*4:]
	b.KeyScales[row] = quant.QuantizeKey8(codes, keyStep, k)
	for i := len(k); i < cols; i++ {
		codes[i/4*keyStep+i%4] = 128 // stands for nothing
	}
}

// putValue stores a value in codes.
func (b *Block8) putValue(row int, v []float32 /* [headDim] */) {
	if b.Values == nil {
		b.Scales[row] = quant.QuantizeF8(b.Floats[row*len(v):], v)
		return
	}
	b.Scales[row] = quant.QuantizePairs8(b.Values[row/2*2*len(v)+row%2:], v)
}
