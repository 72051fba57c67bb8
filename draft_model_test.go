package llmrun_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestDraftModelDoesNotChangeAnswers compares conversations with and without a draft model, the same model with fewer
// bits: greedy and sampled, with penalties, slides and interruptions, with keys and values in memory and on flash, for
// families with windows and short convolutions.
func TestDraftModelDoesNotChangeAnswers(t *testing.T) {
	llmrun.AllBranches(t)
	kept := 0
	for _, family := range []string{"llama3", "gemma3", "lfm2"} {
		t.Run(family, func(t *testing.T) {
			path := testutil.Shared(t, "fixtures", family)
			small := packed(t, path, llmrun.ImportOptions{Quantize: "q8"})
			accepted := 0
			for run := range testutil.Effort(2, 12) {
				r := rand.New(rand.NewPCG(uint64(run), 10))
				o := llmrun.Options{Context: 96 + r.IntN(400), Memory: llmrun.MemoryOptions{Chunk: 8 + r.IntN(32)}}
				if r.IntN(2) == 0 {
					o.Memory.KV, o.Memory.KVRAM = "k8v8", 1
					o.Cache = llmrun.CacheOptions{KVDir: t.TempDir(), NoKV: true}
				}
				seed := r.Uint64()
				plain, _ := talk(t, open(t, path, drafting(o, llmrun.DraftOff, 0)), rand.New(rand.NewPCG(seed, 1)))
				e := open(t, path, drafting(o, small, 1+r.IntN(20)))
				got, n := talk(t, e, rand.New(rand.NewPCG(seed, 1)))
				require.Equal(t, plain, got, "run %d", run)
				accepted, kept = accepted+n, kept+llmrun.KeptBranches(e)
			}
			require.Positive(t, accepted)
		})
	}
	require.Positive(t, kept)
}

// TestLookupBesideADraftModel generates a text that repeats itself: the draft model guesses until look-up is right as often,
// whose guesses take no time.
func TestLookupBesideADraftModel(t *testing.T) {
	path := testutil.Shared(t, "fixtures", "llama3")
	generate := limit(150)
	generate.IgnoreEOS = true
	generate.Sampling.LogitBias = map[int32]float32{1: 30, 7: 30, 9: 30}
	prompt := repeating(rand.New(rand.NewPCG(1, 2)), 100, 30)
	var ids [2][]int32
	for i, drafter := range []string{path, llmrun.DraftOff} {
		s := newSession(t, open(t, path, drafting(llmrun.Options{Context: 256}, drafter, 4)))
		ids[i] = complete(t, s.GenerateIDs(t.Context(), prompt, generate)).IDs
		for _, use := range s.Stats().Drafters {
			require.Positive(t, use.Accepted, use.Name)
		}
	}
	require.Equal(t, ids[1], ids[0])
}

// TestDraftModelIsPlanned compares the memory of an engine with its plan, and a budget below the minimum.
func TestDraftModelIsPlanned(t *testing.T) {
	small := demoModel // itself
	ctx := context.Background()
	o := drafting(llmrun.Options{Threads: 2, Context: 512, Memory: llmrun.MemoryOptions{KV: "k8v8"}}, small, 0)
	least := minimum(t, demoModel, o)
	require.Greater(t, least, minimum(t, demoModel, drafting(o, llmrun.DraftOff, 0))+(25<<20), "the draft model has 28 MiB")
	o.Memory.RAM = least - (1 << 20)
	_, err := llmrun.Open(demoModel, o)
	require.ErrorIs(t, err, llmrun.ErrBudget)
	_, err = llmrun.PlanMemory(ctx, demoModel, o, llmrun.PlanOptions{})
	require.ErrorIs(t, err, llmrun.ErrBudget)
	o.Memory.RAM = least + (2 << 20)
	e := open(t, demoModel, o)
	s := newSession(t, e)
	complete(t, s.Generate(ctx, foxPrompt, limit(8)))
	drafters := s.Stats().Drafters
	require.Equal(t, []string{"lookup", "model"}, []string{drafters[0].Name, drafters[1].Name})
	require.Positive(t, drafters[1].Accepted)
	report := e.Memory()
	require.Equal(t, report.Plan.By["drafts"], report.Peak["drafts"])
	require.NoError(t, e.SetBudget(least+(3<<20)))
	require.ErrorIs(t, e.SetBudget(least-(1<<20)), llmrun.ErrBudget, "the draft model stays")
	require.LessOrEqual(t, report.Ledger, o.Memory.RAM)
	require.NoError(t, e.Close())
	require.NoError(t, e.Close(), "closed again")
}

func TestDraftModelNeedsTheVocabulary(t *testing.T) {
	other := testutil.Shared(t, "fixtures", "llama3")
	refusesLike(t, demoModel, drafting(llmrun.Options{}, other, 0), "vocabulary")
}
