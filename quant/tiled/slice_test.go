package tiled

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
)

// TestMultiplyPartsOfTiles checks that multiplying a few tiles at a time gives the same
// results as multiplying the whole matrix.
func TestMultiplyPartsOfTiles(t *testing.T) {
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

// TestMultiplyIntoLongerRows checks that Multiply with a Stride writes only its part of the
// result rows.
func TestMultiplyIntoLongerRows(t *testing.T) {
	const cols, before, after = 512, 3, 20
	for _, rows := range []int{2 * TileRows, 3*TileRows - 5} {
		for _, tokens := range []int{1, 5, 40} {
			m := packed(t, quant.Q8_0, randomRows(quant.Q8_0, rows, cols, 5), rows, cols)
			acts := activationsOf(randomVector(tokens*cols, 6), cols, tokens)
			s := NewScratch(tokens)
			results := make([]float32, tokens*rows)
			Multiply(results, m, 0, m.Tiles(), acts, s)

			m.Stride = before + rows + after
			got := make([]float32, tokens*m.Stride)
			want := make([]float32, len(got))
			for i := range got {
				got[i], want[i] = float32(i), float32(i)
			}
			for tok := range tokens {
				copy(want[tok*m.Stride+before:], results[tok*rows:][:rows])
			}
			Multiply(got[before:before+(tokens-1)*m.Stride+rows], m, 0, m.Tiles(), acts, s)
			require.Equal(t, want, got, "%d rows, %d tokens", rows, tokens)
		}
	}
}
