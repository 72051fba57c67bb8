package tiled

import "unsafe"

// copyArgs are the arguments of a copy kernel, which copies the sums of complete
// tiles of rows from Scratch.results to the output:
//
//	y[token·rows + tile·TileRows + row] = from[tile·size + token·TileRows + row]
type copyArgs struct {
	y      *float32 // output of the first token
	rows   int      // floats from one token's output to the next
	from   *float32 // [tiles][size]; the kernel reads [tokens][TileRows] of each
	size   int      // floats per tile
	tiles  int
	tokens int
}

// copyOut copies the buffered sums of tiles from row on to y. The results of
// consecutive tokens in y are stride floats apart.
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
	for t := range tokens { // the last tile has fewer than TileRows rows
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
