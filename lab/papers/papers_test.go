package papers

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/lab/schedule"
)

// must lists the figures that the simulator has to reach. The page of results explains the others.
var must = map[string][]string{
	"HeteroLLM: prefill, aligned lengths": {
		"8B, 256: layer-level over GPU only", "8B, 256: tensor-level", "8B, 256: tensor-level over layer-level",
		"8B, mean of 64, 256, 1024: the same", "1.8B, 256: tensor-level", "3B, mean: tensor-level over GPU only",
	},
	"HeteroLLM: prefill of 525 tokens, Llama-8B": {
		"tensor-level over online preparation", "tensor-level over padding", "tensor-level over pipe", "135 tokens: preparing, of all",
	},
	"HeteroLLM: decoding after 256 tokens": {
		"8B: tensor-level over GPU only", "1.8B: the same", "8B: tensor-level", "3B: tensor-level", "1.8B: tensor-level",
	},
	"HeteroLLM: fast synchronization over none": {
		"8B, decoding, tensor-level", "8B, 256, tensor-level", "8B, mean of 64, 256, 1024, tensor-level", "8B, mean, layer-level",
	},
}

// TestPublishedFigures checks that the simulation reaches every figure in must.
func TestPublishedFigures(t *testing.T) {
	tables, err := (&Lab{}).HeteroLLM()
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, table := range tables {
		reached := map[string]bool{}
		for _, f := range table.Figures {
			reached[f.What] = f.Holds()
			t.Logf("%-45s paper %.3f, simulated %.3f %s", f.What, f.Paper, f.Ours, f.Unit)
		}
		for _, what := range must[table.Title] {
			require.True(t, reached[what], "%s: %s", table.Title, what)
		}
		seen[table.Title] = true
	}
	for title := range must {
		require.True(t, seen[title], title)
	}
}

// TestAblationOrder checks that each technique of mllm-NPU speeds up prefill of every model, and that
// the NPU without them is slower than the CPU.
func TestAblationOrder(t *testing.T) {
	for _, m := range []Model{Qwen18, Gemma2B, Llama7B} {
		a := Ablate(m)
		require.Greater(t, a.Naive, a.CPU, m.Name)
		require.Greater(t, a.Naive, a.Chunks)
		require.Greater(t, a.CPU, a.Outliers)
		require.Greater(t, a.Chunks, a.Outliers)
		require.InDelta(t, 0.31, 1-a.OutOfOrder/a.Outliers, 0.13, "%s: the published 18 to 44 %%", m.Name)
	}
	shared := func(m Model) float64 { a := Ablate(m); return a.Naive / a.Chunks }
	require.Greater(t, shared(Gemma2B), max(shared(Qwen18), shared(Llama7B)), "§4.6: the graphs of Gemma-2B take the longest time to build")
}

// TestSharedGraphsDoNotGrow checks that the number of shared graphs does not depend on the
// length of the prompt.
func TestSharedGraphsDoNotGrow(t *testing.T) {
	graphs := MllmGraphs(Qwen18)
	for chunks := 1; chunks < 9; chunks++ {
		g := schedule.CountGraphs(graphs, Qwen18.Layers, chunks, mllmChunk, true)
		require.Equal(t, 120, g.Shared)
		require.Equal(t, 120+24*chunks, g.Count)
	}
}

// TestGPUFraction checks that tensor-level is slower with a fraction of the GPU than with the whole
// GPU, but faster than without the GPU.
func TestGPUFraction(t *testing.T) {
	lab := &Lab{}
	time := func(fraction, limit float64, method Method) float64 {
		r, err := lab.Do(Run{SoC: phone, Model: InternLM2, Method: method, Tokens: 256, GPUFraction: fraction, Quota: limit})
		require.NoError(t, err)
		return r.Time.Seconds()
	}
	whole := time(0, 0, Tensor)
	require.Greater(t, time(0.3, 0, Tensor), whole)
	require.Greater(t, time(0, 0.3, Tensor), whole)
	require.Less(t, time(0, 0.3, Tensor), time(0, 0, Pipe))
	_, err := lab.Do(Run{SoC: "abacus"})
	require.ErrorContains(t, err, "abacus")
}

// TestHolds checks the tolerances of figures, ranges and percentages.
func TestHolds(t *testing.T) {
	for _, c := range []struct {
		f    Figure
		want bool
	}{
		{Figure{Paper: 2, Ours: 2.15}, true},
		{Figure{Paper: 2, Ours: 2.16}, false},
		{Figure{Paper: 1.1, Ours: 1.08}, false},
		{Figure{Paper: 100, Ours: 86, Unit: "tok/s"}, true},
		{Figure{Low: 18, High: 44, Ours: 17, Unit: "%"}, false},
		{Figure{Low: 18, High: 44, Ours: 18, Unit: "%"}, true},
	} {
		require.Equal(t, c.want, c.f.Holds(), "%+v", c.f)
	}
}
