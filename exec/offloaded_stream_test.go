package exec

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// planBeside plans the layers before those of an accelerator in a budget of bytes; 0 is no limit and
// 1 the smallest that suffices.
func planBeside(t *testing.T, f *modelfile.Files, o Options, offloaded int, budget int64) *tiering.Plan {
	t.Helper()
	shape, _, err := MeasureShape(f, ShapeOptions{Threads: o.Threads, KV: o.KV, Offloaded: offloaded})
	require.NoError(t, err)
	need := tiering.Need{Budget: budget, Context: 256, Chunk: o.Chunk, FixedChunk: true}
	plan, err := tiering.MakePlan(shape, need, tiering.Rates{})
	if budget == 1 {
		var refused *tiering.MinimumError
		require.ErrorAs(t, err, &refused)
		need.Budget = refused.Minimum
		plan, err = tiering.MakePlan(shape, need, tiering.Rates{})
	}
	require.NoError(t, err)
	return plan
}

// loadBeside loads a model for an accelerator in the budget of a plan.
func loadBeside(t *testing.T, fsys vfs.FS, path string, second *secondAccelerator, o Options, budget int64) *Model {
	t.Helper()
	f, err := modelfile.Open(fsys, path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	o.Plan = planBeside(t, f, o, len(second.whole.Spec.Layers)-second.first, budget)
	o.Accelerator, o.Budget = second, tiering.New(o.Plan.Budget)
	m, err := Load(t.Context(), f, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		m.Close()
		require.NoError(t, o.Budget.Check())
	})
	return m
}

// TestLayersBesideAnAcceleratorAreStreamed streams the layers that the CPU computes before those of
// an accelerator, and the embedding, with and without a pack, in the smallest budget. The logits are
// those of the model in memory, also after the budget grew and shrank.
func TestLayersBesideAnAcceleratorAreStreamed(t *testing.T) {
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Layers, shape.Dim, shape.FFN = 5, 512, 1024
	for _, tied := range []bool{false, true} {
		shape.Tied = tied
		files := vfs.NewMem()
		require.NoError(t, synth.Write(t.Context(), files, "m.gguf", synth.Options{Shape: shape, Quant: "q4_k_m"}))
		for path, fsys := range map[string]vfs.FS{"m.gguf": files, "m.pack": modeltest.ImportModel(t, files, "m.gguf")} {
			for _, first := range []int{0, 3, 4} {
				t.Run(fmt.Sprintf("%s, tied %v, %d layers on the host", path, tied, first), func(t *testing.T) {
					requireStreamedBeside(t, fsys, path, first)
				})
			}
		}
	}
}

// TestExpertsBesideAnAcceleratorAreStreamed is the same for layers with experts.
func TestExpertsBesideAnAcceleratorAreStreamed(t *testing.T) {
	shape, ok := synth.FindShape("tiny-moe")
	require.True(t, ok)
	shape.Layers = 3
	files := vfs.NewMem()
	require.NoError(t, synth.Write(t.Context(), files, "m.gguf", synth.Options{Shape: shape, Quant: "q4_0"}))
	requireStreamedBeside(t, modeltest.ImportModel(t, files, "m.gguf"), "m.pack", 2)
}

func requireStreamedBeside(t *testing.T, fsys vfs.FS, path string, first int) {
	o := Options{Threads: 2, Chunk: 16, KV: kv.K8V8}
	whole, second := loadCut(t, fsys, path, first, o)
	require.False(t, whole.NeedsFiles())
	ids := longPrompt(whole.Spec.Vocab, 40, 8)
	want := allLogits(t, whole, ids)

	resident := loadBeside(t, fsys, path, second, o, 0)
	require.True(t, resident.residency.Plan.Resident())
	require.Equal(t, want, allLogits(t, resident, ids))

	m := loadBeside(t, fsys, path, second, o, 1)
	plan := m.residency.Plan
	require.True(t, m.NeedsFiles())
	require.Equal(t, first > 0, !plan.Resident())
	require.Equal(t, want, allLogits(t, m, ids))
	require.LessOrEqual(t, m.budget.Usage().TotalPeak, plan.Budget)
	require.Equal(t, first > 0, m.StreamStats().Bytes+m.ExpertStats().Bytes > 0)
	require.Equal(t, plan.PinnedBytes(), m.Placement().HostBytes)
	require.LessOrEqual(t, m.Placement().HostBytes, resident.Placement().HostBytes)

	m.budget.SetLimit(0)
	require.NoError(t, m.Replan(t.Context(), resident.residency.Plan))
	require.Equal(t, want, allLogits(t, m, ids))
	require.Equal(t, resident.Placement().HostBytes, m.Placement().HostBytes)
	require.NoError(t, m.Replan(t.Context(), plan))
	require.Equal(t, want, allLogits(t, m, ids))
}
