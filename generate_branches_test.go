package llmrun_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestBranchesDoNotChangeAnswers compares conversations with trees of guesses with the same ones without guesses, one
// after another and in shared passes: greedy and sampled, with penalties, slides and interruptions, with keys and values
// in memory and on flash, for families with windows, short convolutions and experts.
func TestBranchesDoNotChangeAnswers(t *testing.T) {
	llmrun.AllBranches(t)
	for _, family := range []string{"llama3", "gemma3", "lfm2", "qwen3_moe", "phi3_longrope"} {
		t.Run(family, func(t *testing.T) {
			path := testutil.Shared(t, "fixtures", family)
			kept := 0
			for run := range testutil.Effort(2, 16) {
				r := rand.New(rand.NewPCG(uint64(run), 21))
				o := draftOptions(t, r)
				o.Memory.Chunk = 48
				seed := r.Uint64()
				random := func(i int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(i))) }
				e := open(t, path, drafting(o, llmrun.DraftLookup, 1+r.IntN(16)))
				var got [2][]int32
				var running sync.WaitGroup
				for i := range got {
					running.Go(func() { got[i], _ = talk(t, e, random(i)) })
				}
				running.Wait()
				kept += llmrun.KeptBranches(e)
				if o.Cache.KVDir != "" {
					o.Cache.KVDir = t.TempDir()
				}
				plain := open(t, path, drafting(o, llmrun.DraftOff, 0))
				for i := range got {
					want, _ := talk(t, plain, random(i))
					require.Equal(t, want, got[i], "run %d, session %d", run, i)
				}
			}
			require.Positive(t, kept)
		})
	}
}

// TestBranchesUseAdapters compares answers with trees of guesses with the same ones without guesses, in sessions with
// adapters beside the weights.
func TestBranchesUseAdapters(t *testing.T) {
	llmrun.AllBranches(t)
	o := llmrun.Options{Threads: 2, Context: 512, Adapters: []string{"a=" + demoAdapter(t, 4), "b=" + demoAdapter(t, 9)}}
	guessing := open(t, demoModel, drafting(o, llmrun.DraftLookup, 8))
	plain := open(t, demoModel, drafting(o, llmrun.DraftOff, 0))
	few, seed := limit(100), uint64(1)
	few.IgnoreEOS, few.Sampling.Temperature, few.Sampling.Seed = true, 1, &seed
	few.Sampling.LogitBias = map[int32]float32{301: 40, 307: 40, 309: 40} // a text of a few tokens repeats itself
	for _, use := range [][]string{{"a"}, {"a:-0.5", "b"}} {
		var ids [2][]int32
		for i, e := range []*llmrun.Engine{guessing, plain} {
			s := newSession(t, e)
			require.NoError(t, s.UseAdapters(use...))
			ids[i] = complete(t, s.GenerateIDs(t.Context(), textOf(50), few)).IDs
		}
		require.Equal(t, ids[1], ids[0])
	}
	require.Positive(t, llmrun.KeptBranches(guessing))
}
