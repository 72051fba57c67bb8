package quant

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestQuantizeRowPerRow checks that all blocks of a row have one scale, and that the row's
// largest element becomes the largest code.
func TestQuantizeRowPerRow(t *testing.T) {
	x := make([]float32, 96)
	for i := range x {
		x[i] = float32(i) / 1000
	}
	x[40] = -2.54
	n, err := Q8_0.RowBytes(len(x))
	require.NoError(t, err)
	row := make([]byte, n)
	require.NoError(t, QuantizeRowPerRow(row, x))
	size := Q8_0.BlockBytes()
	for b := 1; b < 3; b++ {
		require.Equal(t, row[:2], row[b*size:b*size+2], "the scale of block %d", b)
	}
	require.EqualValues(t, -127, int8(row[size+2+8]))
	got := make([]float32, len(x))
	DequantRow(Q8_0, got, row)
	for i := range x {
		require.LessOrEqual(t, math.Abs(float64(got[i]-x[i])), 0.02/2*1.001, "element %d", i)
	}

	require.NoError(t, QuantizeRowPerRow(row, make([]float32, 96)))
	require.Equal(t, make([]byte, n), row)
	require.Error(t, QuantizeRowPerRow(row, make([]float32, 100)), "not a whole number of blocks")
	require.Error(t, QuantizeRowPerRow(row[:n-1], x))
}
