package solve_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/lab/sim"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// TestChainedSplitsOnDevicesThatCopy splits two consecutive matmuls between devices,
// one of which has its own memory. Rows of the first result that it has written and
// that were not fetched must still exist when the second matmul starts.
func TestChainedSplitsOnDevicesThatCopy(t *testing.T) {
	const tokens, width = 3, 64
	soc, err := sim.New("8-gen-3", sim.Options{SeparateMemory: true})
	require.NoError(t, err)
	budget := tiering.New(0)
	for name, devices := range map[string][2]hetero.Device{
		"first": {soc.GPU, soc.CPU}, "second": {soc.CPU, soc.GPU},
	} {
		t.Run(name+" copies", func(t *testing.T) {
			pool, err := hetero.NewBufferPool(budget, 3, 4*tokens*width, devices[0], devices[1])
			require.NoError(t, err)
			defer pool.Close()
			var views [3]hetero.View
			for i := range views {
				views[i] = hetero.View{Buffer: pool.Take(), Stride: width}
			}
			rng := rand.New(rand.NewPCG(7, 8))
			op := hetero.Op{Tokens: tokens, Rows: width, Cols: width, Type: quant.Q8_0}
			weigh(t, rng, &op)
			e := solve.Executor{Devices: devices, Costs: instant{}, Grain: soc.Grain(), Fast: true}
			alone := solve.Split{Pieces: []solve.Piece{{Tokens: tokens, Padded: tokens, Rows: width}}}
			split := solve.Split{Cut: solve.Hybrid, Pieces: []solve.Piece{
				{Device: 1, Tokens: 2, Padded: 2, Rows: 16},
				{Device: 1, Token: 2, Tokens: 1, Padded: 1, Rows: 16},
				{Device: 0, Tokens: tokens, Padded: tokens, Row: 16, Rows: width - 16},
			}}
			require.NoError(t, e.Prepare("w", op, &alone))
			require.NoError(t, e.Prepare("w", op, &split))
			run := func(split *solve.Split) []float32 {
				for i := range tokens * width {
					views[0].Buffer.Floats()[i] = float32(i%7) - 3
				}
				for _, d := range devices {
					require.NoError(t, d.FlushRows(views[0], tokens, width))
				}
				var pending []solve.Pending
				for i := range 2 {
					pending, err = e.Submit("w", op, split, views[i], views[i+1], pending)
					require.NoError(t, err)
				}
				for _, p := range pending {
					require.NoError(t, e.Await(p))
					require.NoError(t, devices[p.Device].Fetch(views[2].Buffer))
				}
				return append([]float32(nil), views[2].Buffer.Floats()[:tokens*width]...)
			}
			want, got := run(&alone), run(&split)
			require.NotZero(t, want[0])
			for i := range want {
				require.InDelta(t, want[i], got[i], 1e-2, "element %d", i)
			}
			require.NoError(t, e.Close())
		})
	}
	for _, d := range []hetero.Device{soc.CPU, soc.GPU, soc.NPU} {
		require.NoError(t, d.Close())
	}
	require.NoError(t, budget.Check())
}
