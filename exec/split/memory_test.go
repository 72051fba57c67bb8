package split

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/devices"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/tiering"
)

// short is a device that reports less memory.
type short struct {
	hetero.Device
	memory int64
}

func (s short) Capabilities() hetero.Capabilities {
	c := s.Device.Capabilities()
	c.Memory = s.memory
	return c
}

// TestFitMemory plans a static device with memory for half of a model. It gets the MLP's
// matrices first and never the output matrix.
func TestFitMemory(t *testing.T) {
	p := newPlanner(t, rates{[2]float64{1e9, 1e12}, 0}, true)
	matmuls := []weights.Matmul{
		{Name: "attn_q", Type: quant.Q4_0, Rows: 512, Cols: 512, Count: 4},
		{Name: "ffn_up", Type: quant.Q4_0, Rows: 2048, Cols: 512, Count: 4},
		{Name: "ffn_down", Type: quant.Q4_0, Rows: 512, Cols: 2048, Count: 4},
		{Name: "output", Type: quant.Q4_0, Rows: 4096, Cols: 512, Count: 1, LastTokenOnly: true},
	}
	var ops []hetero.Op
	for _, matmul := range matmuls {
		ops = append(ops, opOf(matmul, p.chunk))
		split, err := p.plan(matmul)
		require.NoError(t, err)
		p.splits[matmulKey(matmul)], p.hostOnly[matmulKey(matmul)] = split, p.hostSplit(matmul)
	}
	var err error
	p.bench.operands, err = solve.NewOperands(tiering.New(0), p.bench.devices, ops, solve.ColdBytes)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.bench.close()) })
	limit := func(bytes int64) map[string]int {
		soc := p.bench.devices[otherDevice]
		p.bench.devices[otherDevice] = short{soc, bytes}
		defer func() { p.bench.devices[otherDevice] = soc }()
		require.NoError(t, p.fitMemory(matmuls, 1<<20))
		count, each := map[string]int{}, p.assign()
		for _, matmul := range matmuls {
			for range matmul.Count {
				if split := each(matmulKey(matmul)); split.Batch < matmul.Rows {
					count[matmul.Name]++
				}
			}
		}
		return count
	}
	all := map[string]int{"attn_q": 4, "ffn_up": 4, "ffn_down": 4}
	require.Equal(t, all, limit(1<<30))
	require.Zero(t, p.unplaced(matmuls))
	up, err := p.deviceBytes(matmuls[1], p.splits[matmulKey(matmuls[1])])
	require.NoError(t, err)
	down, err := p.deviceBytes(matmuls[2], p.splits[matmulKey(matmuls[2])])
	require.NoError(t, err)
	require.Equal(t, map[string]int{"attn_q": 2, "ffn_up": 4, "ffn_down": 3}, limit(1<<20+4*up+4*down-1))
	require.Equal(t, 3, p.unplaced(matmuls))
	require.Empty(t, limit(1<<20))
	for _, matmul := range matmuls {
		require.Equal(t, matmul.Rows, p.splitOf(matmul).Batch)
	}
}

// TestMeasuringDoesNotDependOnThePast prepares splits where all measurements are made in little room, where they are made
// in ample room, and where those of a fast and of a slow device are stored. Measuring takes the same each
// time, also the second time, and covers what the measurements took.
func TestMeasuringDoesNotDependOnThePast(t *testing.T) {
	f := files(t, "q4_0")
	defer func() { require.NoError(t, f.Close()) }()
	device := group() + "/2"
	want := int64(0)
	for name, c := range map[string]struct {
		room     func() int64
		perToken *[2]time.Duration
	}{
		"little room":   {room: func() int64 { return 0 }},
		"ample room":    {room: func() int64 { return ampleRoom }},
		"no limit":      {},
		"a slow device": {perToken: &slowDevice},
		"a fast device": {perToken: &[2]time.Duration{time.Millisecond, time.Microsecond}},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Device: device, Dir: t.TempDir(), Room: c.room}
			if c.perToken != nil {
				pretendTimes(t, o.Dir, device, "q4_0", small, *c.perToken)
			}
			for range 2 {
				model := small
				model.Budget = tiering.New(0)
				p, err := Prepare(t.Context(), f, model, o)
				require.NoError(t, err)
				if want == 0 {
					want = p.Measuring
				}
				require.Positive(t, p.Measuring)
				require.Equal(t, want, p.Measuring)
				require.LessOrEqual(t, p.trial.plan.bench.took(), p.Measuring)
				t.Logf("measured in %d bytes, measuring takes %d", p.trial.plan.bench.took(), p.Measuring)
			}
		})
	}
}

// TestLoadWithLittleDeviceMemory loads a model with a device that has memory for half of
// it, and runs a pass.
func TestLoadWithLittleDeviceMemory(t *testing.T) {
	_, err := devices.All.Open(group(), devices.Options{Memory: 1 << 20})
	require.ErrorIs(t, err, devices.ErrMemory)
	var names []string
	for _, kind := range []hetero.Kind{hetero.GPU, hetero.NPU} {
		name, err := devices.All.First(kind)
		if err != nil {
			t.Logf("skipped: %v", err)
			continue
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		t.Skip("no driver is installed")
	}
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Layers, shape.FFN = 40, 1024 // 40 MB of weights
	f := filesOf(t, shape, "q8_0")
	defer func() { require.NoError(t, f.Close()) }()
	for _, name := range names {
		said := ""
		model := small
		model.Budget = tiering.New(0)
		m, err := Load(t.Context(), f, model, Options{Device: name, Alone: true, Memory: 24 << 20, Report: func(text string) { said += text + "\n" }})
		require.NoError(t, err, name)
		require.Contains(t, said, name+" has no memory for its rows of ")
		there, here := 0, 0
		for _, d := range m.SplitStats() {
			if d.Split.Batch < d.Rows {
				there += d.Count
			} else {
				here += d.Count
			}
		}
		t.Logf("%s has %d matrices, the CPU %d", name, there, here)
		require.Positive(t, there, name)
		require.Positive(t, here, name)
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		require.NoError(t, m.Extend(t.Context(), s, make([]int32, 40), &exec.ExtendOptions{}))
		s.Close()
		m.Close()
		require.NoError(t, model.Budget.Check())
	}
}
