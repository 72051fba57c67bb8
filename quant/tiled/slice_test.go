package tiled

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A matrix whose tiles pass through memory a few at a time gives the same
// results as one that is there as a whole.
func TestMultiplyByPartsOfTheTiles(t *testing.T) {
	for typ := range formats {
		t.Run(typ.String(), func(t *testing.T) {
			const rows, cols, tokens = 5*TileRows - 3, 512, 5
			m := packed(t, typ, randomRows(typ, rows, cols, 5), rows, cols)
			acts := activationsOf(randomVector(tokens*cols, 6), cols, tokens)
			s := NewScratch(tokens)
			want, got := make([]float32, tokens*rows), make([]float32, tokens*rows)
			Multiply(want, m, 0, m.Tiles(), acts, s)
			for first := 0; first < m.Tiles(); first += 2 {
				last := min(first+2, m.Tiles())
				part := *m
				part.First, part.Data = first, m.Data[first*m.tileBytes():last*m.tileBytes()]
				Multiply(got, &part, first, last, acts, s)
			}
			require.Equal(t, want, got)
		})
	}
}
