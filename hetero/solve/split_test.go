package solve_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/sim"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// shapes are the products of three families, a 64th of their size: rows, columns.
var shapes = map[string][][2]int{
	"llama-8b":      {{64, 64}, {16, 64}, {224, 64}, {64, 224}},
	"qwen2.5-1.5b":  {{24, 32}, {4, 32}, {140, 32}, {24, 160}},
	"internlm-1.8b": {{32, 32}, {16, 32}, {128, 32}, {32, 128}},
}

// small are the steps of HeteroLLM for such sizes.
var small = solve.Steps{Rows: 16, Tokens: 4, Lengths: []int{4, 8, 16}}

// TestEverySplitEqualsOneDevice is the metamorphic test of devices: whatever is
// cut, and between whatever devices, the result is that of one device, within
// the tolerance that the kernels state.
func TestEverySplitEqualsOneDevice(t *testing.T) {
	seed := uint64(1)
	pairs := [][2]hetero.Kind{{hetero.CPU, hetero.GPU}, {hetero.CPU, hetero.NPU}, {hetero.GPU, hetero.NPU}}
	cuts := map[solve.Cut]int{}
	for _, pair := range pairs {
		for family, list := range shapes {
			for _, shape := range list {
				for _, tokens := range []int{1, 3, 13, 19} {
					t.Run(fmt.Sprintf("%v+%v/%s/%d×%d×%d", pair[0], pair[1], family, tokens, shape[0], shape[1]), func(t *testing.T) {
						seed++
						everySplit(t, pair, tokens, shape[0], shape[1], seed, cuts)
					})
				}
			}
		}
	}
	for _, c := range []solve.Cut{solve.None, solve.Row, solve.Sequence, solve.MultiSequence, solve.Hybrid} {
		require.Positive(t, cuts[c], "%v was not tried", c)
	}
}

func everySplit(t *testing.T, pair [2]hetero.Kind, tokens, rows, cols int, seed uint64, cuts map[solve.Cut]int) {
	soc, err := sim.New("8-gen-3", sim.Options{})
	require.NoError(t, err)
	all := map[hetero.Kind]hetero.Device{hetero.CPU: soc.CPU, hetero.GPU: soc.GPU, hetero.NPU: soc.NPU}
	devices := [2]hetero.Device{all[pair[0]], all[pair[1]]}
	budget := tiering.New(0)
	pool, err := hetero.NewPool(budget, 3, 4*(tokens+16)*max(rows, cols), devices[:]...)
	require.NoError(t, err)
	defer func() { pool.Close(); require.NoError(t, budget.Check()) }()

	rng := rand.New(rand.NewPCG(seed, 0))
	op := hetero.Op{Tokens: tokens, Rows: rows, Cols: cols, Type: quant.Q8_0}
	sums := weigh(t, rng, &op)
	x := hetero.View{Buffer: pool.Take(), Stride: cols}
	want := hetero.View{Buffer: pool.Take(), Stride: rows}
	y := hetero.View{Buffer: pool.Take(), Stride: rows}
	for tok := range tokens {
		for i := range cols {
			x.Row(tok, cols)[i] = float32(rng.NormFloat64())
		}
	}
	exec := &solve.Executor{Devices: devices, Costs: instant{}, Grain: soc.Grain(), Fast: seed%3 != 0}
	defer func() { require.NoError(t, exec.Close()) }()

	var single float64
	for i, split := range small.Cuts(op, devices[1].Capabilities().Static) {
		cuts[split.Cut]++
		split.Streamed = seed%2 == 0
		covers(t, &split, tokens, rows)
		require.LessOrEqual(t, split.Room(), tokens+16)
		out := y
		if i == 0 {
			out = want // the first is device 0 alone
		}
		for j := range out.Buffer.Floats() {
			out.Buffer.Floats()[j] = float32(math.NaN())
		}
		require.NoError(t, exec.Prepare("w", op, &split))
		done, err := exec.Submit("w", op, &split, x, out, nil)
		require.NoError(t, err)
		for _, p := range done {
			require.NoError(t, exec.Await(p))
		}
		tolerance := exec.Tolerance("w", &split)
		if i == 0 {
			single = tolerance
			continue
		}
		for tok := range tokens {
			largest := 0.0
			for _, v := range x.Row(tok, cols) {
				largest = max(largest, math.Abs(float64(v)))
			}
			for r := range rows {
				a, b := float64(out.Row(tok, rows)[r]), float64(want.Row(tok, rows)[r])
				bound := (tolerance + single) * largest * sums[r]
				if !(math.Abs(a-b) <= bound) {
					t.Fatalf("seed %d: %v %v: y[%d,%d] is %g, alone %g, allowed ±%g", seed, split.Cut, split.Pieces, tok, r, a, b, bound)
				}
			}
		}
	}
}

// instant predicts nothing: everything is waited for by looking.
type instant struct{}

func (instant) Time(int, hetero.Op) time.Duration { return 0 }
func (instant) Start(int) time.Duration           { return 0 }
func (instant) Slowdown(hetero.Op) float64        { return 1 }

// weigh gives the product random weights and returns Σ|w| of its rows.
func weigh(t *testing.T, rng *rand.Rand, op *hetero.Op) []float64 {
	bytes, err := op.Type.RowBytes(op.Cols)
	require.NoError(t, err)
	op.Weights = make([]byte, op.Rows*bytes)
	sums := make([]float64, op.Rows)
	row := make([]float32, op.Cols)
	for r := range op.Rows {
		for i := range row {
			row[i] = float32(rng.NormFloat64())
		}
		to := op.Weights[r*bytes:][:bytes]
		require.NoError(t, quant.QuantizeRow(op.Type, to, row, nil))
		quant.DequantRow(op.Type, row, to)
		for _, v := range row {
			sums[r] += math.Abs(float64(v))
		}
	}
	return sums
}

// covers checks that the pieces do each token and row once.
func covers(t *testing.T, split *solve.Split, tokens, rows int) {
	count := make([]int, tokens*rows)
	for _, p := range split.Pieces {
		require.GreaterOrEqual(t, p.Padded, p.Tokens)
		for tok := p.Token; tok < p.Token+p.Tokens; tok++ {
			for r := p.Row; r < p.Row+p.Rows; r++ {
				count[tok*rows+r]++
			}
		}
	}
	for _, c := range count {
		require.Equal(t, 1, c, "%v %v", split.Cut, split.Pieces)
	}
}
