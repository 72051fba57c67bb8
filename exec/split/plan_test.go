package split

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/profiles"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/lab/sim"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// rates are devices that take times in proportion to the work, from one token on.
type rates struct {
	weights [2]float64 // a second
	start   time.Duration
}

func (r rates) Time(device int, op hetero.Op) time.Duration {
	return time.Duration(float64(op.Tokens) * float64(op.Rows) * float64(op.Cols) / r.weights[device] * 1e9)
}

func (r rates) Start(device int) time.Duration { return time.Duration(device) * r.start }
func (r rates) Slowdown(hetero.Op) float64     { return 1 }

// newPlanner returns a planner that believes in some rates of a device that is, or is
// not, static.
func newPlanner(t *testing.T, r rates, static bool) *planner {
	soc, err := sim.New("8-gen-3", sim.Options{})
	require.NoError(t, err)
	devices := []hetero.Device{soc.CPU, soc.GPU}
	if static {
		devices[otherDevice] = soc.NPU
	}
	return &planner{
		bench: &deviceBench{devices: devices, profiler: solve.NewProfiler(devices, nil)}, chunk: 128, costs: r,
		types: map[quant.Type]bool{quant.Q4_0: true}, splits: map[weights.Matmul]weights.RowSplit{}, hostOnly: map[weights.Matmul]weights.RowSplit{},
	}
}

var matmul = weights.Matmul{Name: "ffn_up", Type: quant.Q4_0, Rows: 4096, Cols: 1024, Count: 8}

// TestRowsGoWhereTheyEndFirst: a product ends when its slower part does.
func TestRowsGoWhereTheyEndFirst(t *testing.T) {
	for name, c := range map[string]struct {
		rates
		limit float64
		here  int // rows of one token, about
	}{
		"equal devices":                  {rates{[2]float64{1e9, 1e9}, 0}, 0, 2048},
		"three times as fast":            {rates{[2]float64{1e9, 3e9}, 0}, 0, 1024},
		"much slower":                    {rates{[2]float64{1e9, 1e7}, 0}, 0, 4096},
		"too slow to be worth it":        {rates{[2]float64{1e9, 4e7}, 0}, 0, 4096},
		"much faster":                    {rates{[2]float64{1e9, 1e12}, 0}, 0, 0},
		"much faster, but not all of it": {rates{[2]float64{1e9, 1e12}, 0}, 0.5, 128},
		"equal, but only for a quarter":  {rates{[2]float64{1e9, 1e9}, 0}, 0.25, 3277},
		"slow to begin":                  {rates{[2]float64{1e9, 1e9}, time.Second}, 0, 4096},
		"half done before it begins":     {rates{[2]float64{1e9, 3e9}, 2097 * time.Microsecond}, 0, 2560},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlanner(t, c.rates, false)
			p.quota = c.limit
			split, err := p.plan(matmul)
			require.NoError(t, err)
			require.InDelta(t, c.here, split.Single, 128)
			require.Positive(t, split.SingleTime)
			require.LessOrEqual(t, split.SingleTime, p.predict(opOf(matmul, 1), matmul.Rows))
		})
	}
}

// TestManyTokensAreDividedFromSomeNumberOn: where beginning costs much, few tokens
// stay here.
func TestManyTokensAreDividedFromSomeNumberOn(t *testing.T) {
	p := newPlanner(t, rates{[2]float64{1e9, 1e12}, 200 * time.Millisecond}, false)
	split, err := p.plan(matmul)
	require.NoError(t, err)
	require.Equal(t, matmul.Rows, split.Single)
	require.Zero(t, split.Batch)
	require.Equal(t, 64, split.MinBatch, "which take 268 ms here, and 32 take 134")
	head := matmul
	head.LastTokenOnly = true
	split, err = p.plan(head)
	require.NoError(t, err)
	require.Equal(t, weights.RowSplit{Single: matmul.Rows, Batch: matmul.Rows, SingleTime: split.SingleTime, BatchTime: split.SingleTime}, split)
}

// TestStaticDevicesHaveChunksOnly: a chunk that is not full takes as long as a full one.
func TestStaticDevicesHaveChunksOnly(t *testing.T) {
	p := newPlanner(t, rates{[2]float64{1e9, 2e9}, 0}, true)
	split, err := p.plan(matmul)
	require.NoError(t, err)
	require.Equal(t, matmul.Rows, split.Single)
	require.InDelta(t, matmul.Rows/3, split.Batch, 128)
	require.Equal(t, 64, split.MinBatch, "of half a chunk the device is still done sooner")
	require.Equal(t, weights.RowSplit{Single: 7, Batch: 7}, p.splitOf(weights.Matmul{Rows: 7}), "nobody decided about it")
}

// TestPassesGoWhereTheyEndFirst: a device that computes whole passes waits for nobody.
func TestPassesGoWhereTheyEndFirst(t *testing.T) {
	for name, c := range map[string]struct {
		rates
		static, whole bool
	}{
		"much faster, but slow to begin": {rates{[2]float64{1e9, 1e11}, 10 * time.Millisecond}, false, true},
		"equal devices":                  {rates{[2]float64{1e9, 1e9}, 0}, false, false},
		"static":                         {rates{[2]float64{1e9, 1e11}, 10 * time.Millisecond}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlanner(t, c.rates, c.static)
			split, err := p.plan(matmul)
			require.NoError(t, err)
			p.splits[matmulKey(matmul)] = split
			require.Equal(t, c.whole, p.wholePassFaster([]weights.Matmul{matmul}))
			unknown := matmul
			unknown.Type = quant.F32
			require.False(t, p.wholePassFaster([]weights.Matmul{matmul, unknown}))
		})
	}
}

// TestCopiesAreKept: a plan of what is known measures nothing, and is the same plan.
func TestCopiesAreKept(t *testing.T) {
	soc, err := sim.New("8-gen-3", sim.Options{SeparateMemory: true})
	require.NoError(t, err)
	devices, dir := []hetero.Device{soc.CPU, soc.GPU}, t.TempDir()
	operands, err := solve.NewOperands(tiering.New(0), devices, []hetero.Op{opOf(matmul, 32)})
	require.NoError(t, err)
	defer func() { require.NoError(t, operands.CloseAfter(devices)) }()
	var took [2]time.Duration
	for i := range took {
		l := &deviceBench{devices: devices, operands: operands, profiler: solve.NewProfiler(devices, nil), keys: profiles.Keys{"cpu", "gpu"}}
		notice := ""
		l.profile, notice = profiles.Load(dir)
		require.Empty(t, notice)
		took[i] = (&planner{bench: l}).copyTime(opOf(matmul, 32))
		require.Equal(t, i == 0, l.dirty)
		l.save(dir, func(text string) { t.Error(text) })
	}
	require.Positive(t, took[0])
	require.Equal(t, took[0], took[1])
}
