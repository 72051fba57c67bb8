package tiled

import "unsafe"

// copyArgs is what copy kernels read and write: the results of whole tiles of
// rows, of which a token's lie far apart in both places. Distances are in
// floats.
type copyArgs struct {
	y      *float32 // where the first token's results go
	rows   int      // from a token's to the next token's
	from   *float32 // [tiles][size], of which [tokens][TileRows] are used
	size   int
	tiles  int
	tokens int
}

// copyOut writes the results of some tiles, the first of which begins at a
// row, to where they belong: a token's rows lie stride floats from the next's.
func (s *Scratch) copyOut(y []float32, stride, rows, row, tiles, tokens int) {
	if tokens == 0 {
		return
	}
	size := paddedTokens(tokens) * TileRows
	whole := min(tiles, (rows-row)/TileRows)
	if whole > 0 {
		s.copy = copyArgs{y: &y[row], rows: stride, from: &s.results[0], size: size, tiles: whole, tokens: tokens}
		active.copyResults(&s.copy)
	}
	if whole == tiles {
		return
	}
	for t := range tokens { // the matrix ends within a tile
		copy(y[t*stride+row+whole*TileRows:t*stride+rows], s.results[whole*size+t*TileRows:])
	}
}

func (portable) copyResults(a *copyArgs) {
	y := unsafe.Slice(a.y, (a.tokens-1)*a.rows+a.tiles*TileRows)
	from := unsafe.Slice(a.from, (a.tiles-1)*a.size+a.tokens*TileRows)
	for t := range a.tokens {
		for i := range a.tiles {
			copy(y[t*a.rows+i*TileRows:][:TileRows], from[i*a.size+t*TileRows:][:TileRows])
		}
	}
}
