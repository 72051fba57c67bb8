package llmrun_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/store/synth"
)

// TestPlanCountsWhatARunReads compares the passes and the bytes of weights that a plan predicts with those of the run, for a
// prompt of several chunks and its answer: in the smallest budget, in half of what holds all, and in nearly all of it.
func TestPlanCountsWhatARunReads(t *testing.T) {
	t.Parallel()
	dense, ok := synth.FindShape("tiny")
	require.True(t, ok)
	dense.Layers, dense.FFN, dense.Vocab, dense.Tied = 4, 1024, 2048, false
	mixture, ok := synth.FindShape("tiny-moe")
	require.True(t, ok)
	mixture.Layers, mixture.Vocab = 5, 2048
	rates := t.TempDir()
	for name, shape := range map[string]synth.Shape{"dense": dense, "mixture": mixture} {
		file := writeShape(t, shape, "q8_0")
		t.Run(name+", GGUF", func(t *testing.T) { requireCounts(t, file, rates) })
		t.Run(name+", pack", func(t *testing.T) { requireCounts(t, packed(t, file, llmrun.ImportOptions{}), rates) })
	}
}

// requireCounts compares plans of a model with runs. rates is the directory of the machine's speeds.
func requireCounts(t *testing.T, path, rates string) {
	prompt, answer := 100, 24
	how := llmrun.PlanOptions{RatesDir: rates, Prompt: prompt, Answer: answer, IDs: true}
	o := llmrun.Options{Threads: 2, Context: 256, Memory: llmrun.MemoryOptions{RAM: 1 << 50, Chunk: 48}, Drafts: llmrun.DraftOptions{Drafter: llmrun.DraftOff}}
	plan := func(ram int64) *llmrun.MemoryPlan {
		o.Memory.RAM = ram
		p, err := llmrun.PlanMemory(t.Context(), path, o, how)
		require.NoError(t, err)
		return p
	}
	whole := plan(1 << 50)
	least, all := whole.Minimum, whole.Total()
	for i, ram := range []int64{least, (least + all) / 2, all - 1<<20} {
		p := plan(ram)
		e := open(t, path, o)
		s := newSession(t, e)
		passes := 0
		a := complete(t, s.GenerateIDs(t.Context(), someIDs(e, prompt), llmrun.GenerateOptions{
			MaxTokens: answer, IgnoreEOS: true, OnPrefill: func(done, _ int) {
				if done > 0 {
					passes++
				}
			},
		}))
		require.Len(t, a.IDs, answer)
		read := s.Stats()
		t.Logf("budget %d: %d tokens a chunk, %d of %d experts in memory: the prompt %d bytes in %d passes, planned %d; a token %d bytes, planned %d",
			i, p.Chunk, p.ExpertSlots, p.Experts, read.PrefillFlash.Bytes, passes, p.PromptStreamed, read.DecodeFlash.Bytes/int64(read.Passes), p.StreamedPerToken)
		require.Equal(t, e.Memory().Plan.Chunk, p.Chunk)
		require.Equal(t, passes, p.PromptPasses)
		ahead := float64(p.Ring) // for the first token of the answer
		require.InDelta(t, read.PrefillFlash.Bytes, p.PromptStreamed, 0.15*float64(read.PrefillFlash.Bytes)+ahead)
		each := float64(read.DecodeFlash.Bytes) / float64(read.Passes)
		if i > 0 && p.Experts > 0 { // a first plan takes the router for an even one, which reads the most
			require.GreaterOrEqual(t, float64(p.StreamedPerToken), 0.95*each)
			require.LessOrEqual(t, float64(p.StreamedPerToken), 1.6*each)
		} else {
			require.InEpsilon(t, each, p.StreamedPerToken, 0.05)
		}
	}
}
