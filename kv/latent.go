package kv

import "github.com/llmrun/llmrun/quant"

// A latent KV head block stores vectors that are keys and whose first elements are values, as models with
// latent attention have them: its layout is that of the keys of a KV head block. Formats in codes store 8
// bits, also K4V8, whose values have 8 bits too.

// latentKeys returns the format whose keys a latent block has.
func (f Format) latentKeys() Format {
	if f.Codes() {
		return K8V8
	}
	return f
}

// LatentBytes returns the size of a latent KV head block.
func (f Format) LatentBytes(dim int) int { return f.latentKeys().keyBytes(dim) }

// LatentFloats views a latent block in F32.
func LatentFloats(block []byte, dim int) []float32 { return view[float32](block, BlockTokens*dim) }

// LatentCodes views the keys of a latent block in codes.
func LatentCodes(block []byte, dim int) (b Block8) {
	codes := BlockTokens * KeyCols(dim)
	b.Keys, b.KeyScales = block[:codes:codes], view[float32](block[codes:], BlockTokens)
	return b
}

// LatentValues writes the first width elements of the vectors of a block in codes in the order of
// Block8.Values; their scales are the keys'.
func LatentValues(dst []int8 /* [BlockTokens/2][width][2] */, keys []uint8, dim, width int) {
	cols := KeyCols(dim)
	for row := range BlockTokens {
		from := keys[row/keyTile*keyTile*cols+row%keyTile*4:]
		to := dst[row/2*2*width+row%2:]
		for i := range width {
			to[2*i] = int8(from[i/4*keyStep+i%4] ^ 0x80)
		}
	}
}

// putLatent is put for a latent block.
func (f Format) putLatent(block []byte, row int, k []float32 /* [dim] */) {
	d := len(k)
	switch f {
	case F32:
		copy(LatentFloats(block, d)[row*d:], k)
	case F16:
		quant.RoundF16(block[2*row*d:], k)
	default:
		b := LatentCodes(block, d)
		b.putKey(row, k)
	}
}
