package opencl

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// TestMergedInputs multiplies the partial results of attention, as floats and as
// codes, for heads that the pieces of the input divide evenly and for others.
func TestMergedInputs(t *testing.T) {
	d, _ := open(t)
	c := d.context
	rng := rand.New(rand.NewPCG(13, 14))
	const rows, heads, most = 20, 8, 11
	for _, head := range []int{12, 16} {
		cols := heads * head
		sums, states := randoms(rng, most*cols), randoms(rng, most*heads*2)
		for i := 1; i < len(states); i += 2 {
			states[i] = 1 + states[i]*states[i] // sums of weights
		}
		states[0] = -100 // a part with a negligible weight
		memory := floats(t, c, append(append([]float32(nil), sums...), states...))
		out, err := c.Alloc(tiering.Shared, 4*rows)
		require.NoError(t, err)
		for _, typ := range []quant.Type{quant.F32, quant.Q8_0} {
			m := randomMatrix(t, rng, typ, rows, cols)
			p, err := c.NewWeightMatrix(false, Weights{Type: typ, Rows: rows, Cols: cols, Data: m.stored})
			require.NoError(t, err)
			v, err := p.NewGEMV(Input{X: memory, Op: Merged, Side: len(sums), Head: head}, Output{Y: out})
			require.NoError(t, err)
			for _, parts := range []int{1, 2, 10, most} {
				x := joined(sums, states, cols, head, parts)
				if typ != quant.F32 {
					x = quantizedBlocks(x)
				}
				got := make([]float32, rows)
				require.NoError(t, errors.Join(v.SetSplits(parts), v.Launch(), out.Read(0, floatBytes(got))))
				for r := range rows {
					require.InDelta(t, m.exact(x, r), got[r], 1e-3, "%v, heads of %d, %d parts, row %d", typ, head, parts, r)
				}
			}
			require.NoError(t, errors.Join(v.Close(), p.Close()))
		}
		require.NoError(t, errors.Join(memory.Free(), out.Free()))
	}
}

// joined merges the partial results of attention: sums [parts, cols], weighted with
// exponentials relative to different scores, and states [parts, heads, 2], which are
// the scores and the sums of weights.
func joined(sums, states []float32, cols, head, parts int) []float32 {
	x := make([]float32, cols)
	for i := range x {
		sum, weight := 0.0, 0.0
		for p := range parts {
			state := states[2*((p*cols+i)/head):]
			e := math.Exp(float64(state[0]))
			sum += e * float64(sums[p*cols+i])
			weight += e * float64(state[1])
		}
		x[i] = float32(sum / weight)
	}
	return x
}
