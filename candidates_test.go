package llmrun_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// sampled returns options for n candidates of up to so many tokens at temperature 0.8.
func sampled(n, tokens int) llmrun.CandidateOptions {
	seed := uint64(11)
	o := llmrun.CandidateOptions{GenerateOptions: limit(tokens), N: n}
	o.Sampling.Temperature, o.Sampling.Seed = 0.8, &seed
	return o
}

// candidatesOf collects the candidates of foxPrompt.
func candidatesOf(t *testing.T, s *llmrun.Session, o llmrun.CandidateOptions) (all []*llmrun.Candidate) {
	t.Helper()
	for c, err := range s.Candidates(context.Background(), llmrun.Prompt{Text: foxPrompt}, o) {
		require.NoError(t, err)
		require.Equal(t, len(all), c.Index)
		all = append(all, c)
	}
	return all
}

// TestCandidatesAreTheTextsOfTheirSeeds compares each candidate with a generation of its seed in a session of
// its own, and counts the tokens that passes process: the prompt once.
func TestCandidatesAreTheTextsOfTheirSeeds(t *testing.T) {
	const n, tokens = 4, 12
	e := open(t, demoModel, llmrun.Options{Threads: 2, Drafts: llmrun.DraftOptions{Drafter: llmrun.DraftOff}})
	s, o := newSession(t, e), sampled(n, tokens)
	o.IgnoreEOS = true
	before := e.PassUse()
	all := candidatesOf(t, s, o)
	after := e.PassUse()
	require.Len(t, all, n)
	require.EqualValues(t, s.Len()-1+n*tokens, after.Tokens-before.Tokens)
	require.GreaterOrEqual(t, s.Stats().Passes, tokens-1)
	require.LessOrEqual(t, int64(s.Stats().Passes), after.Passes-before.Passes-2, "neither the prompt's pass nor that of its last token")
	require.Less(t, s.Stats().Passes, n*tokens)
	require.Equal(t, n*tokens, s.Stats().GeneratedTokens)
	for i, c := range all {
		seed := llmrun.CandidateSeed(*o.Sampling.Seed, i)
		alone := o.GenerateOptions
		alone.Sampling.Seed, alone.TopLogProbs = &seed, 3
		sum, ids := 0.0, []int32(nil)
		for p, err := range newSession(t, e).Generate(context.Background(), foxPrompt, alone) {
			require.NoError(t, err)
			if p.ID < 0 {
				continue
			}
			require.Len(t, p.Top, 3)
			require.GreaterOrEqual(t, p.Top[0].LogProb, p.LogProb)
			sum, ids = sum+float64(p.LogProb), append(ids, p.ID)
		}
		require.Equal(t, ids, c.IDs)
		require.Equal(t, seed, c.Stats.Seed)
		require.Equal(t, sum/tokens, c.Score)
	}
	require.NotEqual(t, all[0].IDs, all[1].IDs)
}

// TestOneCandidateTakesThePassesOfAnAnswer checks that one candidate, and a beam of several steps, count the passes after the prompt as
// a generation does.
func TestOneCandidateTakesThePassesOfAnAnswer(t *testing.T) {
	const tokens = 12
	e := open(t, demoModel, llmrun.Options{Threads: 2, Drafts: llmrun.DraftOptions{Drafter: llmrun.DraftOff}})
	o := sampled(1, tokens)
	o.IgnoreEOS = true
	plain := newSession(t, e)
	complete(t, plain.Generate(t.Context(), foxPrompt, o.GenerateOptions))
	require.Equal(t, tokens-1, plain.Stats().Passes)
	s := newSession(t, e)
	require.Len(t, candidatesOf(t, s, o), 1)
	require.Equal(t, plain.Stats().Passes, s.Stats().Passes)
	require.InDelta(t, plain.Stats().TokensPerPass(), s.Stats().TokensPerPass(), 0)
	b := newSession(t, e)
	for _, err := range b.Beams(t.Context(), llmrun.Prompt{Text: foxPrompt}, llmrun.BeamOptions{GenerateOptions: o.GenerateOptions, Width: 1, Expand: 1, Step: " "}) {
		require.NoError(t, err)
	}
	require.Equal(t, tokens, b.Stats().GeneratedTokens)
	require.Equal(t, tokens-1, b.Stats().Passes)
}

// TestCandidatesDoNotDependOnMemory generates candidates in a budget that has no room for all of them at the
// same time, and with one thread.
func TestCandidatesDoNotDependOnMemory(t *testing.T) {
	dir := tinyModel(t, nil)
	prompt := llmrun.Prompt{IDs: []int32{1, 2, 3, 4, 5}}
	all := func(o llmrun.Options) (ids [][]int32) {
		s, c := newSession(t, open(t, dir, o)), sampled(32, 40)
		c.IgnoreEOS = true
		for k, err := range s.Candidates(context.Background(), prompt, c) {
			require.NoError(t, err)
			ids = append(ids, k.IDs)
		}
		return ids
	}
	o := llmrun.Options{Threads: 2, Memory: llmrun.MemoryOptions{RAM: llmrun.NoLimit}}
	want := all(o)
	require.Len(t, want, 32)
	o.Threads = 1
	require.Equal(t, want, all(o))
	o.Memory.RAM = minimum(t, dir, o)
	require.Equal(t, want, all(o))
}

// TestCandidatesGetMemoryOfWeights generates candidates in a budget that streams weights: they share passes, for which weights
// make room, and have the same texts as with all memory. Afterwards the weights are back.
func TestCandidatesGetMemoryOfWeights(t *testing.T) {
	pack := packed(t, demoModel, llmrun.ImportOptions{})
	o := llmrun.Options{Threads: 2, Context: 256, Memory: llmrun.MemoryOptions{KV: "k8v8", RAM: llmrun.NoLimit}}
	taken := int64(0) // of other memory, for the candidates
	all := func(o llmrun.Options) (ids [][]int32, stats llmrun.Stats) {
		e := open(t, pack, o)
		before, heap, opened := e.Memory().Plan.Pinned, e.Memory().Plan.By["heap"], e.FlashUse().Bytes
		s, c := newSession(t, e), sampled(8, 10)
		c.IgnoreEOS = true
		for k, err := range s.Candidates(t.Context(), llmrun.Prompt{Text: foxPrompt}, c) {
			require.NoError(t, err)
			ids = append(ids, k.IDs)
			taken = e.Memory().Plan.By["heap"] - heap
		}
		require.Equal(t, before, e.Memory().Plan.Pinned)
		stats = s.Stats()
		require.Equal(t, e.FlashUse().Bytes, opened+stats.PrefillFlash.Bytes+stats.DecodeFlash.Bytes)
		require.NoError(t, s.Close())
		require.NoError(t, e.Close())
		return ids, stats
	}
	want, _ := all(o)
	o.Memory.RAM = minimum(t, pack, o) + 10<<20
	got, stats := all(o)
	require.Equal(t, want, got)
	require.Greater(t, stats.TokensPerPass(), 2.0)
	require.Positive(t, taken)
	require.Less(t, taken, int64(8<<20), "no candidate needs a frame for keys and values of its own")
	require.Positive(t, stats.DecodeFlash.Bytes)
	require.Positive(t, stats.DecodeKV.HotPages)
}

// TestChooseContinuesBehindTheCandidate chooses a candidate and goes on, as a session does that generated it.
func TestChooseContinuesBehindTheCandidate(t *testing.T) {
	e := demo(t)
	s := newSession(t, e)
	all := candidatesOf(t, s, sampled(2, 10))
	ended, end := context.WithCancel(context.Background())
	end()
	require.ErrorIs(t, s.Choose(ended, all[1]), context.Canceled)
	require.NoError(t, s.Choose(context.Background(), all[1]))
	require.ErrorIs(t, s.Choose(context.Background(), all[0]), llmrun.ErrOptions, "one was chosen")
	other := newSession(t, e)
	o := limit(10)
	o.Sampling.Temperature, o.Sampling.Seed = 0.8, &all[1].Stats.Seed
	require.Equal(t, all[1].IDs, complete(t, other.Generate(context.Background(), foxPrompt, o)).IDs)
	want := complete(t, other.GenerateIDs(context.Background(), nil, limit(10)))
	require.Equal(t, want.IDs, complete(t, s.GenerateIDs(context.Background(), nil, limit(10))).IDs)
	require.Equal(t, s.Stats().PromptTokens-1, s.Stats().ReusedTokens)
}

// TestCandidatesEndEarly breaks out of the loop, and returns errors of options, of the context and of Score.
// The session is usable afterwards.
func TestCandidatesEndEarly(t *testing.T) {
	s := newSession(t, demo(t))
	prompt := llmrun.Prompt{Messages: []llmrun.Message{{Role: "user", Content: "Hello!"}}}
	last := func(ctx context.Context, o llmrun.CandidateOptions, p llmrun.Prompt) (err error) {
		for _, err = range s.Candidates(ctx, p, o) {
			if err == nil {
				break
			}
		}
		return err
	}
	require.NoError(t, last(context.Background(), sampled(3, 300), prompt))
	for _, n := range []int{0, -1, 257} {
		require.ErrorIs(t, last(context.Background(), sampled(n, 5), prompt), llmrun.ErrOptions)
	}
	require.ErrorIs(t, last(context.Background(), sampled(1, 5), llmrun.Prompt{}), llmrun.ErrOptions)
	broken := errors.New("broken")
	o := sampled(3, 300)
	o.Score = func(context.Context, *llmrun.Candidate) (float64, error) { return 0, broken }
	require.ErrorIs(t, last(context.Background(), o, prompt), broken)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, last(ctx, sampled(2, 5), prompt), context.Canceled)
	for _, top := range []int{-1, 101} {
		o = sampled(2, 5)
		o.TopLogProbs = top
		require.ErrorIs(t, last(context.Background(), o, prompt), llmrun.ErrOptions)
	}
	require.NoError(t, last(context.Background(), sampled(1, 5), prompt))
	require.False(t, math.IsNaN((&llmrun.Candidate{}).MeanLogProb()))
}

// TestVote checks majorities, ties, and candidates without an answer.
func TestVote(t *testing.T) {
	number := func(text string) (string, bool) { return text, text != "" }
	for _, c := range []struct {
		texts  []string
		scores []float64
		winner int
		votes  int
	}{
		{texts: []string{"4", "5", "4"}, scores: []float64{1, 9, 2}, winner: 2, votes: 2},
		{texts: []string{"4", "5", "5", "4"}, scores: []float64{1, 2, 3, 4}, winner: 3, votes: 2},
		{texts: []string{"4", "5"}, scores: []float64{1, 1}, winner: 0, votes: 1},
		{texts: []string{"", "", "5"}, scores: []float64{3, 2, 1}, winner: 2, votes: 1},
		{texts: []string{"", ""}, scores: []float64{3, 2}, winner: -1},
		{texts: []string{"4", "5", "5", "4"}, scores: []float64{math.NaN(), math.NaN(), 1, -2}, winner: 2, votes: 2},
		{texts: []string{"4", "5", "6"}, scores: []float64{math.NaN(), math.NaN(), math.NaN()}, winner: 0, votes: 1},
	} {
		var all []*llmrun.Candidate
		for i, text := range c.texts {
			all = append(all, &llmrun.Candidate{Index: i, Text: text, Score: c.scores[i]})
		}
		winner, votes := llmrun.Vote(all, number)
		require.Equal(t, c.votes, votes)
		if c.winner < 0 {
			require.Nil(t, winner)
			continue
		}
		require.Same(t, all[c.winner], winner)
	}
	require.Nil(t, llmrun.Best(nil))
}

// TestEmptyAnswersAreTheWorst chooses between an answer without tokens and an unlikely one.
func TestEmptyAnswersAreTheWorst(t *testing.T) {
	empty, some := &llmrun.Candidate{}, &llmrun.Candidate{Index: 1, LogProbs: []float32{-90}}
	for _, c := range []*llmrun.Candidate{empty, some} {
		c.Score = c.MeanLogProb()
	}
	require.Same(t, some, llmrun.Best([]*llmrun.Candidate{empty, some}))
}

// TestCandidatesEndWithTheContext generates answers that fill the context, and goes on behind one of them.
func TestCandidatesEndWithTheContext(t *testing.T) {
	e := open(t, tinyModel(t, nil), llmrun.Options{Threads: 1, Context: 64})
	s := newSession(t, e)
	o := llmrun.CandidateOptions{GenerateOptions: limit(100), N: 2}
	o.IgnoreEOS, o.Overflow = true, llmrun.OverflowSlide
	var last *llmrun.Candidate
	for c, err := range s.Candidates(t.Context(), llmrun.Prompt{IDs: someIDs(e, 20)}, o) {
		require.NoError(t, err)
		require.Equal(t, llmrun.StopContext, c.Stats.StopReason)
		last = c
	}
	require.NoError(t, s.Choose(t.Context(), last))
}
