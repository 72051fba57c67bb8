package kv

import (
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
)

// put quantizes and stores the key and value of one token in a row of a KV head
// block. It writes the bytes of that token and no others.
func (f Format) put(block []byte, row int, k, v []float32 /* [headDim] */) {
	d := len(k)
	switch f {
	case F32:
		keys, values := f.Block32(block, d)
		copy(keys[row*d:], k)
		copy(values[row*d:], v)
	case F16:
		keys, values := f.Block16(block, d)
		quant.RoundF16(keys[2*row*d:], k)
		quant.RoundF16(values[2*row*d:], v)
	default:
		b := f.Block8(block, d)
		b.putKey(row, k)
		b.putValue(row, v)
	}
}

// keyTile is the number of tokens whose keys are interleaved. keyStep is the distance
// between consecutive groups of four elements of an 8-bit key.
const (
	keyTile = tiled.KeyTile
	keyStep = 4 * keyTile
)

// putKey quantizes and stores a key in codes.
func (b *Block8) putKey(row int, k []float32 /* [headDim] */) {
	cols := KeyCols(len(k))
	if b.KeyScales == nil {
		tiled.PutKey4(b.Keys, row, cols, k)
		return
	}
	codes := b.Keys[row/keyTile*keyTile*cols+row%keyTile*4:]
	b.KeyScales[row] = quant.QuantizeKey8(codes, keyStep, k)
	for i := len(k); i < cols; i++ {
		codes[i/4*keyStep+i%4] = 128 // padding: the code of zero
	}
}

// putValue quantizes and stores a value in codes.
func (b *Block8) putValue(row int, v []float32 /* [headDim] */) {
	if b.Values == nil {
		b.Scales[row] = quant.QuantizeF8(b.Floats[row*len(v):], v)
		return
	}
	b.Scales[row] = quant.QuantizePairs8(b.Values[row/2*2*len(v)+row%2:], v)
}
