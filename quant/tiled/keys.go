package tiled

import (
	"fmt"
	"math"
)

// KeyTile is how many keys are interleaved for Scores, as TileRows are in a
// matrix.
const KeyTile = TileRows

// Scores multiplies queries with 8-bit keys:
//
//	y[q][key] = fma over groups of float32(i)·scale with d
//
// as for weights with a zero of 128 (see the package's doc), where the scale is
// the key's less its last two bits. keys are tiles of
// KeyTile keys of cols elements, scales one for each key. It computes whole
// tiles: y's rows must have room for the keys rounded up to tiles.
func Scores(y []float32 /* [queries, stride] */, stride int, keys []uint8, scales []float32, cols, count int, a *Activations, s *Scratch) {
	tiles := (count + KeyTile - 1) / KeyTile
	groups := cols / GroupElems
	if a.cols != cols || groups > panelGroups || stride < tiles*KeyTile || len(y) < a.tokens*stride ||
		len(keys) < tiles*KeyTile*cols || len(scales) < tiles*KeyTile {
		panic(fmt.Sprintf("tiled: scores of %d keys of %d elements for %d queries of %d", count, cols, a.tokens, a.cols))
	}
	for t := range tiles {
		s.panel.repeat(scales[t*KeyTile:][:KeyTile], groups)
		s.use(0, a.tokens)
		s.multiplyCodes(&keyFormat, &keys[t*KeyTile*cols], a, 0, groups)
		for q := range a.tokens {
			copy(y[q*stride+t*KeyTile:][:KeyTile], s.sums[q*TileRows:][:TileRows])
		}
	}
}

// repeat makes keys' scales those of that many groups, less their last two
// bits: so products with startFloat are exact. Scales of weights are shorter
// than that.
func (p *panel) repeat(scales []float32 /* [KeyTile] */, groups int) {
	const last = 3
	p.centred = false
	first := p.scales[:KeyTile]
	for i, scale := range scales {
		first[i] = math.Float32frombits(math.Float32bits(scale) &^ last)
	}
	for g := 1; g < groups; g++ {
		copy(p.scales[g*KeyTile:], first)
	}
}

// keyFormat is that of the codes: bytes with a zero of 128.
var keyFormat = format{bits: 8, zero: 128}
