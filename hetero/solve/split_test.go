package solve_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/devices"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/lab/sim"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// shapes are the matmuls of three model families, a 64th of their size: rows,
// columns.
var shapes = map[string][][2]int{
	"llama-8b":      {{64, 64}, {16, 64}, {224, 64}, {64, 224}},
	"qwen2.5-1.5b":  {{24, 32}, {4, 32}, {140, 32}, {24, 160}},
	"internlm-1.8b": {{32, 32}, {16, 32}, {128, 32}, {32, 128}},
}

// small are the steps of HeteroLLM for such sizes.
var small = solve.Steps{Rows: 16, Tokens: 4, Lengths: []int{4, 8, 16}}

// place is a device of the test.
type place struct {
	name   string
	device hetero.Device
	grain  time.Duration
}

// odd are matmuls whose sizes no step, tile or block of a device divides, with the
// types that such columns allow.
var odd = []hetero.Op{
	{Tokens: 33, Rows: 43, Cols: 33, Type: quant.F32},
	{Tokens: 1, Rows: 1, Cols: 1, Type: quant.F32},
	{Tokens: 5, Rows: 29, Cols: 45, Type: quant.BF16},
	{Tokens: 1, Rows: 31, Cols: 63, Type: quant.F16},
	{Tokens: 33, Rows: 36, Cols: 256, Type: quant.Q4_K},
	{Tokens: 1, Rows: 17, Cols: 512, Type: quant.Q6_K},
	{Tokens: 3, Rows: 33, Cols: 160, Type: quant.Q5_0},
}

// places opens each kind of device of a simulated phone, a GPU with its own memory,
// and all devices of this machine and build.
func places(t *testing.T, budget *tiering.Budget) (list []place) {
	soc, err := sim.New("8-gen-3", sim.Options{})
	require.NoError(t, err)
	apart, err := sim.New("8-gen-3", sim.Options{SeparateMemory: true})
	require.NoError(t, err)
	list = []place{
		{"simulated CPU", soc.CPU, soc.Grain()},
		{"simulated GPU", soc.GPU, soc.Grain()},
		{"simulated NPU", soc.NPU, soc.Grain()},
		{"simulated GPU that copies", apart.GPU, apart.Grain()},
	}
	for _, l := range devices.All.List() {
		if l.Missing != nil {
			t.Logf("%s is left out: %v", l.Provider, l.Missing)
		}
		for _, f := range l.Found {
			d, err := devices.All.Open(f.Name, devices.Options{Budget: budget})
			require.NoError(t, err)
			list = append(list, place{f.Name, d, time.Millisecond})
		}
	}
	return list
}

// TestEverySplitEqualsOneDevice is a metamorphic test: for every split between any
// two devices, the result must equal that of one device within the stated tolerance
// of the kernels.
func TestEverySplitEqualsOneDevice(t *testing.T) {
	budget := tiering.New(0)
	all := places(t, budget)
	var open []hetero.Device
	for _, p := range all {
		open = append(open, p.device)
	}
	const floats = (33 + 16) * 256 // the largest of tokens, padded, by the largest of shapes
	pool, err := hetero.NewBufferPool(budget, 3, 4*floats, open...)
	require.NoError(t, err)
	defer func() {
		for _, d := range open {
			require.NoError(t, d.Close())
		}
		pool.Close()
		require.NoError(t, budget.Check())
	}()
	seed := uint64(1)
	cuts := map[solve.Cut]int{}
	views := [3]*hetero.Buffer{pool.Take(), pool.Take(), pool.Take()}
	for i, first := range all {
		for j, second := range all {
			// Device 0 accepts any number of tokens. One order of two such devices is enough.
			static := second.device.Capabilities().Static
			if i == j || first.device.Capabilities().Static || !static && j < i {
				continue
			}
			for family, list := range shapes {
				if testing.Short() {
					list = list[:1]
				}
				for _, shape := range list {
					for _, tokens := range []int{1, 3, 13, 19} {
						t.Run(fmt.Sprintf("%s+%s/%s/%d×%d×%d", first.name, second.name, family, tokens, shape[0], shape[1]), func(t *testing.T) {
							seed++
							p := &pair{places: [2]place{first, second}, seed: seed, cuts: cuts}
							typ := []quant.Type{quant.Q8_0, quant.Q4_0}[seed/2%2]
							p.everySplit(t, views, hetero.Op{Tokens: tokens, Rows: shape[0], Cols: shape[1], Type: typ})
						})
					}
				}
			}
			for _, op := range odd {
				t.Run(fmt.Sprintf("%s+%s/%v/%d×%d×%d", first.name, second.name, op.Type, op.Tokens, op.Rows, op.Cols), func(t *testing.T) {
					seed++
					p := &pair{places: [2]place{first, second}, seed: seed, cuts: cuts}
					p.everySplit(t, views, op)
				})
			}
		}
	}
	for _, c := range []solve.Cut{solve.None, solve.Row, solve.Sequence, solve.MultiSequence, solve.Hybrid} {
		require.Positive(t, cuts[c], "%v was not tried", c)
	}
}

// pair is two devices that share matmuls.
type pair struct {
	places [2]place
	seed   uint64
	cuts   map[solve.Cut]int // number of tests of each

	exec      solve.Executor
	op        hetero.Op
	x         hetero.View
	single    float64   // tolerance of device 0
	allowance []float64 // [tokens × rows] error that a tolerance of one admits
}

// everySplit runs a matmul with every split.
func (p *pair) everySplit(t *testing.T, buffers [3]*hetero.Buffer, op hetero.Op) {
	rng := rand.New(rand.NewPCG(p.seed, 0))
	p.op = op
	tokens, rows, cols := op.Tokens, op.Rows, op.Cols
	sums := weigh(t, rng, &p.op)
	p.x = hetero.View{Buffer: buffers[0], Stride: cols}
	want := hetero.View{Buffer: buffers[1], Stride: rows}
	y := hetero.View{Buffer: buffers[2], Stride: rows}
	for tok := range tokens {
		largest := 0.0
		for i := range cols {
			p.x.Row(tok, cols)[i] = float32(rng.NormFloat64())
			largest = max(largest, math.Abs(float64(p.x.Row(tok, cols)[i])))
		}
		for _, sum := range sums {
			p.allowance = append(p.allowance, largest*sum)
		}
	}
	p.exec = solve.Executor{Costs: instant{}, Grain: max(p.places[0].grain, p.places[1].grain), Fast: p.seed%3 != 0}
	for i := range p.places {
		p.exec.Devices[i] = p.places[i].device
		require.NoError(t, p.places[i].device.Flush(p.x.Buffer))
	}
	defer func() { require.NoError(t, p.exec.Close()) }()
	for i, split := range small.Cuts(p.op, p.exec.Devices[1].Capabilities().Static) {
		p.cuts[split.Cut]++
		split.Streamed = p.seed%2 == 0
		covers(t, &split, tokens, rows)
		require.LessOrEqual(t, split.PaddedTokens(), tokens+16)
		if i == 0 { // device 0 alone
			p.single = p.do(t, &split, want)
			continue
		}
		p.compare(t, &split, y, want, p.do(t, &split, y)+p.single)
	}
}

// do runs a matmul with a split.
func (p *pair) do(t *testing.T, split *solve.Split, out hetero.View) (tolerance float64) {
	for j := range split.PaddedTokens() * p.op.Rows {
		out.Buffer.Floats()[j] = float32(math.NaN())
	}
	require.NoError(t, p.exec.Prepare("w", p.op, split))
	done, err := p.exec.Submit("w", p.op, split, p.x, out, nil)
	require.NoError(t, err)
	for _, pending := range done {
		require.NoError(t, p.exec.Await(pending))
		require.NoError(t, p.exec.Devices[pending.Device].Fetch(out.Buffer))
	}
	return p.exec.Tolerance("w", split)
}

func (p *pair) compare(t *testing.T, split *solve.Split, got, want hetero.View, tolerance float64) {
	for tok := range p.op.Tokens {
		for r := range p.op.Rows {
			a, b := float64(got.Row(tok, p.op.Rows)[r]), float64(want.Row(tok, p.op.Rows)[r])
			bound := tolerance * p.allowance[tok*p.op.Rows+r]
			if !(math.Abs(a-b) <= bound) {
				t.Fatalf("seed %d: %v %v: y[%d,%d] is %g, alone %g, allowed ±%g", p.seed, split.Cut, split.Pieces, tok, r, a, b, bound)
			}
		}
	}
}

// instant predicts no times, so that the executor polls for everything.
type instant struct{}

func (instant) Time(int, hetero.Op) time.Duration { return 0 }
func (instant) Start(int) time.Duration           { return 0 }
func (instant) Slowdown(hetero.Op) float64        { return 1 }

// weigh sets random weights and returns Σ|w| of each row.
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
		switch {
		case op.Type == quant.F32:
			_, err := binary.Encode(to, binary.LittleEndian, row)
			require.NoError(t, err)
		case op.Type == quant.F16:
			quant.RoundF16(to, row)
		case quant.CanQuantize(op.Type):
			require.NoError(t, quant.QuantizeRow(op.Type, to, row, nil))
		default:
			for i := range to { // any bytes are weights; scales of these are finite
				to[i] = byte(rng.Uint32()) & 0x3b
			}
		}
		quant.DequantRow(op.Type, row, to)
		for _, v := range row {
			sums[r] += math.Abs(float64(v))
		}
	}
	return sums
}

// covers checks that the pieces cover each token and row once.
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
		if c != 1 { // millions of times
			t.Fatalf("something is done %d times: %v %v", c, split.Cut, split.Pieces)
		}
	}
}
