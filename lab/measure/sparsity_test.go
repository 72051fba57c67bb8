package measure

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSparsityDropsTheSmallest drops all but two columns of 16 tokens. Eight tokens in a row keep column 0 and one more,
// which is another one in the second half.
func TestSparsityDropsTheSmallest(t *testing.T) {
	rows := make([][]float32, 16)
	for i := range rows {
		rows[i] = []float32{-9, 0.5, 0.25, 0.125, 1, -1, 0.5, 0.75}
		rows[i][1+i/8] = 2
	}
	s := &sparsity{keep: 2}
	s.drop(len(rows), func(i int) []float32 { return rows[i] })
	require.Equal(t, []float32{-9, 2, 0, 0, 0, 0, 0, 0}, rows[0])
	require.Equal(t, []float32{-9, 0, 2, 0, 0, 0, 0, 0}, rows[15])
	require.Equal(t, [2]int{2, 1}, s.count)
	require.Equal(t, [2]float64{2 * 2.0 / 8, 3.0 / 8}, s.sums)
}
