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

// rates are two devices whose times are proportional to the work.
type rates struct {
	weights [2]float64 // per second
	start   time.Duration
}

func (r rates) Time(device int, op hetero.Op) time.Duration {
	return time.Duration(float64(op.Tokens) * float64(op.Rows) * float64(op.Cols) / r.weights[device] * 1e9)
}

func (r rates) Start(device int) time.Duration { return time.Duration(device) * r.start }
func (r rates) Slowdown(hetero.Op) float64     { return 1 }

// newPlanner returns a planner with given rates, for a static or dynamic device.
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

// TestBestRowSplit checks the row split that minimizes the time of the slower side.
func TestBestRowSplit(t *testing.T) {
	for name, c := range map[string]struct {
		rates
		limit float64
		here  int // approximate CPU rows for one token
	}{
		"equal devices":                {rates{[2]float64{1e9, 1e9}, 0}, 0, 2048},
		"three times as fast":          {rates{[2]float64{1e9, 3e9}, 0}, 0, 1024},
		"much slower":                  {rates{[2]float64{1e9, 1e7}, 0}, 0, 4096},
		"too slow to pay off":          {rates{[2]float64{1e9, 4e7}, 0}, 0, 4096},
		"much faster":                  {rates{[2]float64{1e9, 1e12}, 0}, 0, 0},
		"much faster, quota of a half": {rates{[2]float64{1e9, 1e12}, 0}, 0.5, 128},
		"equal, quota of a quarter":    {rates{[2]float64{1e9, 1e9}, 0}, 0.25, 3277},
		"slow to start":                {rates{[2]float64{1e9, 1e9}, time.Second}, 0, 4096},
		"CPU half done at the start":   {rates{[2]float64{1e9, 3e9}, 2097 * time.Microsecond}, 0, 2560},
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

// TestMinBatch checks that small batches stay on the CPU if starting the device takes long.
func TestMinBatch(t *testing.T) {
	p := newPlanner(t, rates{[2]float64{1e9, 1e12}, 200 * time.Millisecond}, false)
	split, err := p.plan(matmul)
	require.NoError(t, err)
	require.Equal(t, matmul.Rows, split.Single)
	require.Zero(t, split.Batch)
	require.Equal(t, 64, split.MinBatch, "64 tokens take 268 ms on the CPU, 32 take 134 ms")
	head := matmul
	head.LastTokenOnly = true
	split, err = p.plan(head)
	require.NoError(t, err)
	require.Equal(t, weights.RowSplit{Single: matmul.Rows, Batch: matmul.Rows, SingleTime: split.SingleTime, BatchTime: split.SingleTime}, split)
}

// TestStaticDeviceSplit checks that a static device gets whole chunks only, and that a
// partial chunk takes the time of a full one.
func TestStaticDeviceSplit(t *testing.T) {
	p := newPlanner(t, rates{[2]float64{1e9, 2e9}, 0}, true)
	split, err := p.plan(matmul)
	require.NoError(t, err)
	require.Equal(t, matmul.Rows, split.Single)
	require.InDelta(t, matmul.Rows/3, split.Batch, 128)
	require.Equal(t, 64, split.MinBatch, "the device is faster even with half a chunk")
	require.Equal(t, weights.RowSplit{Single: 7, Batch: 7}, p.splitOf(weights.Matmul{Rows: 7}), "a matmul without a plan")
}

// TestWholePassFaster checks when whole passes on the device are predicted to be faster
// than a split.
func TestWholePassFaster(t *testing.T) {
	for name, c := range map[string]struct {
		rates
		static, whole bool
	}{
		"much faster, but slow to start": {rates{[2]float64{1e9, 1e11}, 10 * time.Millisecond}, false, true},
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

// TestCopyTimesAreSaved checks that a stored copy time is not measured again.
func TestCopyTimesAreSaved(t *testing.T) {
	soc, err := sim.New("8-gen-3", sim.Options{SeparateMemory: true})
	require.NoError(t, err)
	devices, dir := []hetero.Device{soc.CPU, soc.GPU}, t.TempDir()
	operands, err := solve.NewOperands(tiering.New(0), devices, []hetero.Op{opOf(matmul, 32)}, solve.ColdBytes)
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
