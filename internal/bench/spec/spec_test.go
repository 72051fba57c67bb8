package spec

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// openBundled opens the bundled model with a drafter.
func openBundled(t *testing.T) func(context.Context, llmrun.DraftOptions) (*llmrun.Engine, error) {
	path := filepath.Join(testutil.Root(t), "cmd", "llmrun", "bundled", "model.pack")
	return func(ctx context.Context, d llmrun.DraftOptions) (*llmrun.Engine, error) {
		return llmrun.OpenContext(ctx, path, llmrun.Options{Threads: 2, Context: 512, Drafts: d})
	}
}

// TestRunComparesDrafters answers the summary of the note: all drafters give as many tokens, look-up in fewer
// passes, and the model has no planes that could guess.
func TestRunComparesDrafters(t *testing.T) {
	var done, all int64
	r, err := Run(t.Context(), Options{
		Open: openBundled(t), Prompts: Prompts()[1:2], Tokens: 32, Turns: 2,
		Running: func(d, a int64) { done, all = d, a },
	})
	require.NoError(t, err)
	require.Equal(t, all, done)
	require.Contains(t, r.Skipped[llmrun.DraftNested], "no planes")
	require.Len(t, r.Tests, 3)
	for i, drafter := range []string{llmrun.DraftOff, llmrun.DraftLookup, llmrun.DraftAuto} {
		test := r.Tests[i]
		require.Equal(t, drafter, test.Drafter)
		require.Equal(t, "summary", test.Prompt)
		require.Equal(t, 2*31, test.Tokens, "%s: the prompt gives the first token", drafter)
		require.Positive(t, test.TokPerSec.Min)
		require.Positive(t, test.Speed)
	}
	off, lookup := r.Tests[0], r.Tests[1]
	require.Equal(t, 1.0, off.Speed)
	require.Equal(t, off.Tokens, off.Passes)
	require.Empty(t, off.Guesses)
	require.Less(t, lookup.Passes, off.Passes)
	require.Equal(t, lookup.Tokens-lookup.Passes, lookup.Guesses[0].Accepted)
	require.Contains(t, []string{llmrun.DraftOff, llmrun.DraftLookup, llmrun.DraftAuto}, r.Pays)
}

// TestRunRefuses names a drafter that the model cannot have, and a prompt whose answer has one token.
func TestRunRefuses(t *testing.T) {
	o := Options{Open: openBundled(t), Drafters: []string{llmrun.DraftNested}, Prompts: []Prompt{{"prompt", "Hi"}}, Tokens: 2, Turns: 1}
	_, err := Run(t.Context(), o)
	require.ErrorIs(t, err, llmrun.ErrOptions)
	o.Tokens, o.Drafters = 1, []string{llmrun.DraftLookup}
	_, err = Run(t.Context(), o)
	require.ErrorIs(t, err, ErrShort)
}

// TestOtherTextIsAnError compares an answer with one that it does not have.
func TestOtherTextIsAnError(t *testing.T) {
	m := &measurement{Options: Options{Prompts: Prompts(), Tokens: 2}, answers: [][]int32{{-5}}, report: &Report{}}
	engine, err := openBundled(t)(t.Context(), llmrun.DraftOptions{})
	require.NoError(t, err)
	require.ErrorIs(t, m.answer(t.Context(), engine, 0, llmrun.DraftLookup, 0), ErrTexts)
	require.NoError(t, engine.Close())
}

// TestPaysIsTheFastest computes results from times: ratios are those of the same turn. What pays is faster by a margin, and
// in most turns.
func TestPaysIsTheFastest(t *testing.T) {
	results := func(times map[string][]float64) *Report {
		m := &measurement{Options: Options{Prompts: Prompts()[:1]}, drafters: []string{"off", "lookup", "auto"}, report: &Report{}, tests: map[string][]*Test{}}
		for drafter, took := range times {
			m.tests[drafter] = []*Test{{Drafter: drafter, took: took, rate: []float64{1}, Tokens: 1, Passes: 1}}
		}
		m.summarize()
		return m.report
	}
	r := results(map[string][]float64{"off": {1, 10, 100, 10}, "lookup": {0.5, 5, 400, 4}, "auto": {0.9, 9, 25, 8}})
	require.Equal(t, "lookup", r.Pays)
	require.InDelta(t, 2, r.Speed, 1e-9)
	require.InDelta(t, 0.25, r.SpeedMin, 1e-9)
	require.InDelta(t, 2.5, r.SpeedMax, 1e-9)
	require.InDelta(t, (10./9+10./8)/2, r.Tests[2].Speed, 1e-9)
	r = results(map[string][]float64{"off": {1, 10, 100}, "lookup": {0.5, 5, 400}, "auto": {0.9, 9, 25}})
	require.Equal(t, "auto", r.Pays, "look-up is slower in one of three turns")
	r = results(map[string][]float64{"off": {1, 1, 1}, "lookup": {0.98, 0.98, 0.98}, "auto": {2, 2, 2}})
	require.Equal(t, llmrun.DraftOff, r.Pays, "a hair faster")
	r = results(map[string][]float64{"off": {1, 10}, "lookup": {2, 20}, "auto": {2, 20}})
	require.Equal(t, llmrun.DraftOff, r.Pays)
	require.Equal(t, 1.0, r.Speed)
}
