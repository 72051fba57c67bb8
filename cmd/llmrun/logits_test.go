package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHighestIsTheHeadOfASort compares highest with a stable sort, for rows with equal values, NaN and
// infinities, and checks that it does not take memory for the whole row.
func TestHighestIsTheHeadOfASort(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for length := range 60 {
		row, order := make([]float32, length), make([]int, length)
		for i := range row {
			row[i], order[i] = float32(random.IntN(20)), i
			switch random.IntN(12) {
			case 0:
				row[i] = float32(math.NaN())
			case 1:
				row[i] = float32(math.Inf(random.IntN(2)*2 - 1))
			}
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(row[b], row[a]) })
		for _, n := range []int{0, 1, shownLogits} {
			require.Equal(t, order[:min(n, length)], highest(row, n), "%d of %v", n, row)
		}
	}
	require.LessOrEqual(t, cap(highest(make([]float32, 1<<16), shownLogits)), 2*shownLogits)
}
