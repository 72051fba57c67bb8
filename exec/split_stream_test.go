package exec

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// splitPlan plans the CPU's rows of a split model in the smallest budget, or in one without a limit.
func splitPlan(t *testing.T, f *modelfile.Files, o Options, least bool) *tiering.Plan {
	t.Helper()
	shape, _, err := MeasureShape(f, ShapeOptions{Threads: o.Threads, KV: o.KV, RowsOf: o.Split.RowsOf})
	require.NoError(t, err)
	need := tiering.Need{Context: 256, Chunk: o.Chunk, FixedChunk: true}
	if least {
		need.Budget = 1
		var refused *tiering.MinimumError
		_, err = tiering.MakePlan(shape, need, tiering.Rates{})
		require.ErrorAs(t, err, &refused)
		need.Budget = refused.Minimum
	}
	plan, err := tiering.MakePlan(shape, need, tiering.Rates{})
	require.NoError(t, err)
	return plan
}

// TestSplitHostRowsAreStreamed streams the CPU's rows of matrices that are split over two devices, of
// files and packs, with and without an output matrix of its own, and experts. The logits of chunks and
// of single tokens are those of the same split in memory, also after the budget grew and shrank.
func TestSplitHostRowsAreStreamed(t *testing.T) {
	for _, c := range []struct {
		shape, mix string
		tied       bool
	}{{"tiny", "q4_k_m", false}, {"tiny", "q8_0", true}, {"tiny", "f16", false}, {"tiny-moe", "q4_0", false}} {
		shape, ok := synth.FindShape(c.shape)
		require.True(t, ok)
		shape.Layers, shape.Dim, shape.FFN, shape.Tied = 3, 512, 1024, c.tied
		files := vfs.NewMem()
		require.NoError(t, synth.Write(t.Context(), files, "m.gguf", synth.Options{Shape: shape, Quant: c.mix}))
		for path, fsys := range map[string]vfs.FS{"m.gguf": files, "m.pack": modeltest.ImportModel(t, files, "m.gguf")} {
			for _, p := range partners(t) {
				if p.name != "cores" && (path != "m.pack" || c.mix != "q8_0") {
					continue // where the CPU's rows are does not depend on the device
				}
				for i, s := range testSplits[2:] {
					t.Run(fmt.Sprintf("%s %s/%s/%s/%d", c.shape, c.mix, path, p.name, i), func(t *testing.T) {
						requireStreamedRows(t, fsys, path, &p, s)
					})
				}
			}
		}
	}
}

func requireStreamedRows(t *testing.T, fsys vfs.FS, path string, p *partner, s split) {
	o := Options{Threads: 2, Chunk: 8, KV: kv.K8V8}
	whole := loadModel(t, fsys, path, p.splitWith(t, s, o))
	ids := longPrompt(whole.Spec.Vocab, 19, 3)
	logits := func(m *Model) [][]float32 {
		seq, err := m.NewSequence(0)
		require.NoError(t, err)
		defer seq.Close()
		got := extendAll(t, m, seq, ids[:13])
		for _, id := range ids[13:] {
			got = append(got, extendAll(t, m, seq, []int32{id})...)
		}
		return got
	}
	want := logits(whole)
	whole.Close()

	f, err := modelfile.Open(fsys, path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	o = p.splitWith(t, s, o)
	o.Plan = splitPlan(t, f, o, true)
	resident := splitPlan(t, f, o, false)
	m, err := Load(t.Context(), f, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		m.Close()
		require.NoError(t, o.Budget.Check())
	})
	require.Equal(t, want, logits(m))
	require.False(t, o.Plan.Resident())
	require.Positive(t, m.StreamStats().Bytes+m.ExpertStats().Bytes)
	seq, _ := m.residency.Sequence()
	head := &m.weights.Head
	rows := max(head.Offload.Single, head.Offload.Batch)
	require.LessOrEqual(t, seq.Tail[0].Size, int64(rows*head.RowBytes()+pack.BlockBytes), "rows of the device are not streamed")
	require.NoError(t, m.Replan(t.Context(), resident))
	require.Equal(t, want, logits(m))
	require.NoError(t, m.Replan(t.Context(), o.Plan))
	require.Equal(t, want, logits(m))
}

// TestSplitStreamAllocatesNothing decodes with streamed rows beside those of another device, of a file
// and of a pack.
func TestSplitStreamAllocatesNothing(t *testing.T) {
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Layers, shape.Dim, shape.FFN = 3, 512, 1024
	files := vfs.NewMem()
	require.NoError(t, synth.Write(t.Context(), files, "m.gguf", synth.Options{Shape: shape, Quant: "q4_0"}))
	for path, fsys := range map[string]vfs.FS{"m.gguf": files, "m.pack": modeltest.ImportModel(t, files, "m.gguf")} {
		t.Run(path, func(t *testing.T) {
			p := partners(t)[0]
			o := p.splitWith(t, split{single: 0.5, batch: 0.5}, Options{Threads: 2, Chunk: 8, KV: kv.K8V8})
			f, err := modelfile.Open(fsys, path)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, f.Close()) })
			o.Plan = splitPlan(t, f, o, true)
			m, err := Load(t.Context(), f, o)
			require.NoError(t, err)
			defer m.Close()
			requireNoAllocs(t, m)
		})
	}
}
