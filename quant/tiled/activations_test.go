package tiled

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
)

// TestSetPerTensor checks that products with one scale per row and one per token equal
// integer sums on every path.
func TestSetPerTensor(t *testing.T) {
	const rows, cols, tokens, scale = 20, 96, 17, 0.01
	w, x := randomVector(rows*cols, 1), randomVector(tokens*cols, 2)
	x[3*cols+5] = 400 * scale // becomes code 127
	size, err := quant.Q8_0.RowBytes(cols)
	require.NoError(t, err)
	stored := make([]byte, rows*size)
	for r := range rows {
		require.NoError(t, quant.QuantizeRowPerRow(stored[r*size:], w[r*cols:(r+1)*cols]))
	}
	codes := func(r int) (codes []float64, scale float64) {
		row := make([]float32, cols)
		quant.DequantRow(quant.Q8_0, row, stored[r*size:(r+1)*size])
		step := quant.F16ToF32(binary.LittleEndian.Uint16(stored[r*size:]))
		for _, v := range row {
			codes = append(codes, math.Round(float64(v/step)))
		}
		return codes, float64(step)
	}
	forEachPath(t, func(t *testing.T, path kernels) {
		usePath(t, path)
		a := &Activations{}
		a.Use(make([]float32, FloatsNeeded(cols, tokens)), cols, tokens)
		for i := range tokens {
			most := a.SetPerTensor(i, x[i*cols:][:cols], scale)
			require.Equal(t, i == 3, math.Float32frombits(most) == 400*scale)
		}
		y := make([]float32, tokens*rows)
		m := packed(t, quant.Q8_0, stored, rows, cols)
		Multiply(y, m, 0, m.Tiles(), a, NewScratch(tokens))
		for r := range rows {
			wr, ws := codes(r)
			for i := range tokens {
				var want float64
				for c, v := range x[i*cols : (i+1)*cols] {
					want += wr[c] * max(-127, min(127, math.RoundToEven(float64(v*(1/float32(scale))))))
				}
				require.InDelta(t, want*ws*scale, y[i*rows+r], 1e-4, "row %d of token %d", r, i)
			}
		}
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
			row := make([]float32, cols)
			row[70] = bad
			require.GreaterOrEqual(t, a.SetPerTensor(16, row, scale), uint32(infBits))
			Multiply(y, m, 0, m.Tiles(), a, NewScratch(tokens))
			require.False(t, math.Abs(float64(y[16*rows])) < math.MaxFloat32, "an activation that is not finite must give a result that is not finite")
			require.Less(t, math.Abs(float64(y[15*rows])), 1e3)
		}
	})
}
