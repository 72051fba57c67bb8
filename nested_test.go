package llmrun_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// importTo imports a model with a mix, and in planes if nested names them.
func importTo(t *testing.T, path, quantize, nested string) string {
	to := filepath.Join(t.TempDir(), "m.pack")
	_, err := llmrun.Import(context.Background(), path, to, llmrun.ImportOptions{Quantize: quantize, Nested: nested})
	require.NoError(t, err)
	return to
}

// TestNestedDraftsDoNotChangeAnswers compares conversations with and without guesses of high planes: greedy and
// sampled, with penalties, slides and interruptions, with KV in memory and on flash.
func TestNestedDraftsDoNotChangeAnswers(t *testing.T) {
	llmrun.AllBranches(t)
	kept := 0
	for _, c := range []struct{ family, quantize, nested string }{
		{"llama3", "q8", llmrun.NestedThree}, {"gemma3", "q4s", llmrun.NestedMixed}, {"phi3_longrope", "q4s", llmrun.NestedThree},
	} {
		t.Run(c.family, func(t *testing.T) {
			path := testutil.Shared(t, "fixtures", c.family)
			whole, planes := importTo(t, path, c.quantize, ""), importTo(t, path, c.quantize, c.nested)
			accepted := 0
			for run := range testutil.Effort(1, 12) {
				r := rand.New(rand.NewPCG(uint64(run), 9))
				o := draftOptions(t, r)
				seed := r.Uint64()
				plain, _ := talk(t, open(t, whole, drafting(o, llmrun.DraftOff, 0)), rand.New(rand.NewPCG(seed, 1)))
				if o.Cache.KVDir != "" {
					o.Cache.KVDir = t.TempDir()
				}
				e := open(t, planes, drafting(o, llmrun.DraftNested, 1+r.IntN(20)))
				got, n := talk(t, e, rand.New(rand.NewPCG(seed, 1)))
				require.Equal(t, plain, got, "run %d", run)
				accepted, kept = accepted+n, kept+llmrun.KeptBranches(e)
			}
			require.Positive(t, accepted)
		})
	}
	require.Positive(t, kept)
}

// TestNestedDraftsUseAdapters generates with the high planes of the demo model beside an adapter: the text is that of the whole
// model with the adapter, with all planes in memory and with streamed ones.
func TestNestedDraftsUseAdapters(t *testing.T) {
	whole, planes := importTo(t, demoModel, "q8", ""), importTo(t, demoModel, "q8", llmrun.NestedThree)
	o := llmrun.Options{Threads: 1, Context: 256, Adapters: []string{"a=" + demoAdapter(t, 4)}, SessionAdapters: []string{"a:0.5"}}
	streamed := drafting(o, llmrun.DraftNested, 4)
	streamed.Memory.RAM = minimum(t, planes, streamed) + 1<<20
	for _, temperature := range []float32{0, 0.8} {
		var ids [3][]int32
		for i, e := range []*llmrun.Engine{open(t, whole, drafting(o, llmrun.DraftOff, 0)), open(t, planes, drafting(o, llmrun.DraftNested, 4)), open(t, planes, streamed)} {
			s, seed, generate := newSession(t, e), uint64(3), limit(10)
			generate.Sampling.Temperature, generate.Sampling.Seed = temperature, &seed
			ids[i] = complete(t, s.Generate(t.Context(), foxPrompt, generate)).IDs
			if i > 0 {
				drafters := s.Stats().Drafters
				require.Positive(t, drafters[len(drafters)-1].Accepted)
			}
			require.NoError(t, e.Close())
		}
		require.Equal(t, ids[0], ids[1])
		require.Equal(t, ids[0], ids[2])
	}
	o.Adapters, o.SessionAdapters = []string{demoAdapter(t, 4)}, nil
	refusesLike(t, planes, drafting(o, llmrun.DraftNested, 0), "nested: Adapters excludes it")
}

// TestNestedWithinABudget streams the low planes of the demo model: its text is that of the whole model, in
// few passes. The drafter that a budget chooses is the same.
func TestNestedWithinABudget(t *testing.T) {
	ctx := context.Background()
	const prompt = "Tell me a story about a brave fox named Ruby."
	message := []llmrun.Message{{Role: "user", Content: prompt}}
	whole, planes := importTo(t, demoModel, "q8", ""), importTo(t, demoModel, "q8", llmrun.NestedThree)
	want := complete(t, newSession(t, open(t, whole, drafting(llmrun.Options{}, llmrun.DraftOff, 0))).ChatMessages(ctx, message, limit(40))).Text

	o := llmrun.Options{Context: 512, Threads: 1}
	o.Memory.RAM = 1
	_, err := llmrun.PlanMemory(ctx, planes, o, llmrun.PlanOptions{RatesDir: t.TempDir()})
	var refused *llmrun.MinimumError
	require.ErrorAs(t, err, &refused)
	o = drafting(o, llmrun.DraftNested, 8)
	_, err = llmrun.PlanMemory(ctx, planes, o, llmrun.PlanOptions{RatesDir: t.TempDir()})
	var needsHigh *llmrun.MinimumError
	require.ErrorAs(t, err, &needsHigh)
	require.Greater(t, needsHigh.Minimum, refused.Minimum, "the high planes stay in memory")
	for _, drafter := range []string{llmrun.DraftNested, llmrun.DraftAuto} {
		o = drafting(o, drafter, 8)
		o.Memory.RAM = needsHigh.Minimum + 1<<20
		e := open(t, planes, o)
		s := newSession(t, e)
		require.Equal(t, want, complete(t, s.ChatMessages(ctx, message, limit(40))).Text, drafter)
		stats := s.Stats()
		require.Positive(t, stats.DecodeFlash.Bytes, drafter)
		if drafter == llmrun.DraftNested {
			require.Greater(t, stats.TokensPerPass(), 4.0)
		}
	}
	o.Memory.RAM = refused.Minimum + 1<<20 // too little for the high planes: everything is streamed
	require.Contains(t, want, complete(t, newSession(t, open(t, planes, o)).ChatMessages(ctx, message, limit(5))).Text)
}

// TestNestedNeedsPlanes refuses the drafter for models without planes.
func TestNestedNeedsPlanes(t *testing.T) {
	refusesLike(t, demoModel, drafting(llmrun.Options{}, llmrun.DraftNested, 0), "import the model with --nested")
	_, err := llmrun.Import(context.Background(), demoModel, filepath.Join(t.TempDir(), "m.pack"), llmrun.ImportOptions{Nested: "5"})
	require.ErrorIs(t, err, llmrun.ErrOptions)
}

// refusesLike checks that Open and PlanMemory refuse options, with the same words.
func refusesLike(t *testing.T, path string, o llmrun.Options, message string) {
	t.Helper()
	_, err := llmrun.Open(path, o)
	require.ErrorIs(t, err, llmrun.ErrOptions)
	require.ErrorContains(t, err, message)
	_, planned := llmrun.PlanMemory(context.Background(), path, o, llmrun.PlanOptions{RatesDir: t.TempDir()})
	require.ErrorIs(t, planned, llmrun.ErrOptions)
	require.Equal(t, err.Error(), planned.Error())
}

// TestNestedNamesWhatExcludesIt refuses the drafter for a model with planes, but with options that cannot draft.
func TestNestedNamesWhatExcludesIt(t *testing.T) {
	planes := importTo(t, testutil.Shared(t, "fixtures", "llama3"), "q8", llmrun.NestedThree)
	o := drafting(llmrun.Options{Exact: true}, llmrun.DraftNested, 0)
	refusesLike(t, planes, o, "nested: Exact excludes it")
	o.Exact, o.Memory.KVSelect = false, "0.1"
	refusesLike(t, planes, o, "nested: Memory.KVSelect excludes it")
	conv := importTo(t, testutil.Shared(t, "fixtures", "lfm2"), "q8", llmrun.NestedThree)
	refusesLike(t, conv, drafting(llmrun.Options{}, llmrun.DraftNested, 0), "a model with layers with recurrent state")
}
