package llmrun_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestPlanPredictsWithGuesses plans a streamed model whose disk is so slow that guesses are free beside reading: the
// speed with guesses is that without them, times the tokens of a pass. A run with guesses changes what is assumed. The rates are
// fixed: with those of a busy machine fewer guesses pay.
func TestPlanPredictsWithGuesses(t *testing.T) {
	o := llmrun.Options{Threads: 1, Context: 1000, Cache: llmrun.CacheOptions{Dir: t.TempDir()}}
	o.Memory.KV = "k8v8"
	o.Memory.RAM = minimum(t, demoModel, o) + (4 << 20)
	slow := o
	slow.Lab.Disk = llmrun.DiskSpeed{BytesPerSecond: 20e6}
	path := demoModel
	plan := func(o llmrun.Options) *llmrun.MemoryPlan {
		p, err := llmrun.PlanMemory(t.Context(), path, o, llmrun.PlanOptions{})
		require.NoError(t, err)
		return p
	}
	plan(slow)
	fixRates(t, o.Cache.Dir, llmrun.Rates{FlashGBs: 0.02, DecodeGBs: 10, PrefillGops: 100, AttendGBs: 5, AttendChunkGBs: 10})
	p := plan(drafting(slow, llmrun.DraftAuto, 0))
	require.EqualValues(t, 10, p.Measured.DecodeGBs)
	require.Positive(t, p.StreamedPerToken)
	require.Len(t, p.Guesses, 1)
	g := p.Guesses[0]
	require.Equal(t, "lookup", g.Drafter)
	require.Zero(t, g.Seen)
	require.InDelta(t, 2, g.TokensPerPass, 0.01, "what is assumed")
	require.InEpsilon(t, p.PredictedDecode*g.TokensPerPass, g.Decode, 0.3)
	require.Empty(t, plan(drafting(slow, llmrun.DraftOff, 0)).Guesses)
	e := open(t, demoModel, drafting(o, llmrun.DraftLookup, 8))
	s := newSession(t, e)
	generate := limit(60)
	generate.IgnoreEOS = true
	generate.Sampling.LogitBias = map[int32]float32{1: 100, 7: 100} // a text of two tokens
	complete(t, s.Generate(context.Background(), foxPrompt, generate))
	generate.MaxTokens = 200
	complete(t, s.Generate(context.Background(), foxPrompt, generate))
	require.NoError(t, e.Close())
	p = plan(drafting(slow, llmrun.DraftLookup, 8))
	require.Greater(t, p.Guesses[0].Seen, 23)
	require.Greater(t, p.Guesses[0].TokensPerPass, 3.0)

	// The counts are those of the model under any name.
	path = packed(t, demoModel, llmrun.ImportOptions{})
	require.Equal(t, p.Guesses[0].Seen, plan(drafting(slow, llmrun.DraftLookup, 8)).Guesses[0].Seen)
}

// TestPlanPredictsAnswersTogether plans several answers at the same time. On a slow disk a pass takes as long as it reads, so that n
// answers make nearly n times the tokens; in memory they make fewer, but more than one. A budget without room for
// them, and experts, are not predicted.
func TestPlanPredictsAnswersTogether(t *testing.T) {
	o := llmrun.Options{Threads: 1, Context: 512, Cache: llmrun.CacheOptions{Dir: t.TempDir()}}
	o.Memory.KV, o.Memory.RAM = "k8v8", llmrun.NoLimit
	plan := func(path string, o llmrun.Options) *llmrun.MemoryPlan {
		p, err := llmrun.PlanMemory(t.Context(), path, o, llmrun.PlanOptions{})
		require.NoError(t, err)
		return p
	}
	p := plan(demoModel, o)
	require.Len(t, p.Together, 4)
	for i, n := range []int{2, 4, 8, 16} {
		got := p.Together[i]
		require.Equal(t, n, got.N)
		require.Less(t, got.Decode, float64(n)*p.PredictedDecode)
		require.Greater(t, got.Decode, 0.7*p.PredictedDecode)
	}
	require.Greater(t, p.Together[3].Decode, 1.5*p.PredictedDecode)

	least := minimum(t, demoModel, o)
	o.Lab.Disk = llmrun.DiskSpeed{BytesPerSecond: 20e6}
	o.Memory.RAM = least + 16<<20
	p = plan(demoModel, o)
	require.Positive(t, p.StreamedPerToken)
	require.NotEmpty(t, p.Together)
	for _, got := range p.Together {
		require.LessOrEqual(t, got.Decode, float64(got.N)*p.PredictedDecode)
	}
	require.Greater(t, p.Together[0].Decode, 1.3*p.PredictedDecode)
	o.Memory.RAM = least
	few := plan(demoModel, o).Together
	require.Less(t, len(few), len(p.Together), "the budget has room for fewer")
	short, err := llmrun.PlanMemory(t.Context(), demoModel, o, llmrun.PlanOptions{Prompt: 20, Answer: 40})
	require.NoError(t, err)
	require.Greater(t, len(short.Together), len(few), "short answers share the memory of the context")
	o.Lab.Disk = llmrun.DiskSpeed{}
	o.Memory.RAM = llmrun.NoLimit
	require.Empty(t, plan(testutil.Shared(t, "fixtures", "qwen3_moe"), o).Together)
}

// TestPlanDoesNotPredictExperts says that the speed of a named drafter is not predicted for a model with experts.
func TestPlanDoesNotPredictExperts(t *testing.T) {
	path, rates := testutil.Shared(t, "fixtures", "qwen3_moe"), t.TempDir()
	for drafter, why := range map[string]string{llmrun.DraftLookup: "each guess may need other experts", llmrun.DraftAuto: ""} {
		o := drafting(llmrun.Options{Threads: 1, Cache: llmrun.CacheOptions{Dir: rates}}, drafter, 0)
		p, err := llmrun.PlanMemory(t.Context(), path, o, llmrun.PlanOptions{})
		require.NoError(t, err)
		require.Empty(t, p.Guesses)
		require.Equal(t, why, p.GuessesNotPredicted)
	}
}

// TestPlanPredictsADraftModel plans with a draft model and with planes, each of which takes time for a guess.
func TestPlanPredictsADraftModel(t *testing.T) {
	o := llmrun.Options{Threads: 1, Context: 512, Cache: llmrun.CacheOptions{Dir: t.TempDir()}}
	o.Memory.KV, o.Memory.RAM = "k8v8", llmrun.NoLimit
	path := testutil.Shared(t, "fixtures", "llama3")
	planes := importTo(t, path, "q8", llmrun.NestedThree)
	for _, drafter := range []string{path, llmrun.DraftNested} {
		p, err := llmrun.PlanMemory(t.Context(), planes, drafting(o, drafter, 16), llmrun.PlanOptions{})
		require.NoError(t, err)
		require.Len(t, p.Guesses, 1)
		g := p.Guesses[0]
		require.Contains(t, []string{"model", "nested"}, g.Drafter)
		require.Equal(t, 16, g.Guesses, "a drafter that is named makes all guesses")
		require.Greater(t, g.TokensPerPass, 4.0)
		require.Less(t, g.Decode, g.TokensPerPass*p.PredictedDecode, "guesses take time")
	}
}

// fixRates replaces the speeds of the measurements in a directory, so that a plan does not depend on the machine and its load.
func fixRates(t *testing.T, dir string, fixed llmrun.Rates) {
	t.Helper()
	file, known := filepath.Join(dir, "rates.json"), map[string]llmrun.Rates{}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &known))
	for key, r := range known {
		r.Lost = 0
		for _, speed := range []struct{ measured, fixed *float64 }{
			{&r.FlashGBs, &fixed.FlashGBs},
			{&r.DecodeGBs, &fixed.DecodeGBs},
			{&r.PrefillGops, &fixed.PrefillGops},
			{&r.AttendGBs, &fixed.AttendGBs},
			{&r.AttendChunkGBs, &fixed.AttendChunkGBs},
		} {
			if *speed.measured > 0 {
				*speed.measured = *speed.fixed
			}
		}
		known[key] = r
	}
	data, err = json.Marshal(known)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data, 0o600))
}
