package llmrun_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// beam is an answer in the reference search.
type beam struct {
	ids      []int32
	logProbs []float32
	text     string
	score    float64
	ended    bool
}

// searched is a beam search that generates each continuation from the prompt on, in a session of its own.
func searched(t *testing.T, e *llmrun.Engine, o llmrun.BeamOptions) (kept []beam) {
	prompt := testIDs(t, e, foxPrompt)
	parents, each, first := []beam{{}}, o.Width*o.Expand, 0
	for len(parents) > 0 {
		all := slices.DeleteFunc(kept, func(b beam) bool { return !b.ended })
		for i := range len(parents) * each {
			all = append(all, extended(t, e, prompt, parents[i/each], &o, llmrun.CandidateSeed(*o.Sampling.Seed, first+i)))
		}
		first += len(parents) * each
		slices.SortStableFunc(all, func(a, b beam) int {
			switch {
			case a.score > b.score:
				return -1
			case a.score < b.score:
				return 1
			}
			return 0
		})
		kept, parents, each = nil, nil, o.Expand
		for _, b := range all {
			same := func(k beam) bool { return slices.Equal(k.ids, b.ids) }
			if len(kept) < o.Width && !slices.ContainsFunc(kept, same) {
				kept = append(kept, b)
			}
		}
		for _, b := range kept {
			if !b.ended {
				parents = append(parents, b)
			}
		}
	}
	return kept
}

// extended continues a beam by a step.
func extended(t *testing.T, e *llmrun.Engine, prompt []int32, from beam, o *llmrun.BeamOptions, seed uint64) beam {
	g := o.GenerateOptions
	g.Sampling.Seed, g.LogProbs, g.MaxTokens = &seed, true, o.MaxTokens-len(from.ids)
	b, step := beam{ids: slices.Clone(from.ids), logProbs: slices.Clone(from.logProbs), text: from.text, ended: true}, ""
	for p, err := range newSession(t, e).GenerateIDs(context.Background(), slices.Concat(prompt, from.ids), g) {
		require.NoError(t, err)
		if step += p.Text; p.ID >= 0 {
			b.ids, b.logProbs = append(b.ids, p.ID), append(b.logProbs, p.LogProb)
		}
		if strings.Contains(step, o.Step) {
			b.ended = len(b.ids) == o.MaxTokens
			break
		}
	}
	b.text += step
	b.score = (&llmrun.Candidate{LogProbs: b.logProbs}).MeanLogProb()
	return b
}

func testIDs(t *testing.T, e *llmrun.Engine, text string) []int32 {
	ids, err := e.Tokenizer().Encode(text, llmrun.EncodeOptions{Special: true})
	require.NoError(t, err)
	return ids
}

// TestStopStringsSpanSteps looks for a stop string that begins at the end of a step, in the token that ends it.
func TestStopStringsSpanSteps(t *testing.T) {
	e := open(t, demoModel, llmrun.Options{Threads: 2, Context: 128})
	a := complete(t, newSession(t, e).Generate(t.Context(), foxPrompt, limit(40)))
	at := 0 // of a token's text in the answer
	for i, id := range a.IDs[:len(a.IDs)-1] {
		token, err := e.Tokenizer().Decode([]int32{id})
		require.NoError(t, err)
		at = strings.Index(a.Text[at:], token) + at
		step, rest := token[:max(0, len(token)-1)], token[max(0, len(token)-1):]
		next := a.Text[at+len(token):]
		if i < 3 || len(step) < 2 || len(next) < 2 || strings.Index(a.Text, rest+next[:2]) != at+len(step) {
			continue
		}
		o := llmrun.BeamOptions{GenerateOptions: limit(40), Width: 1, Expand: 1, Step: step}
		o.Stop = []string{rest + next[:2]}
		steps := 0
		o.OnStep = func(_, _ []*llmrun.Candidate) { steps++ }
		for c, err := range newSession(t, e).Beams(t.Context(), llmrun.Prompt{Text: foxPrompt}, o) {
			require.NoError(t, err)
			require.Equal(t, a.Text[:at+len(step)], c.Text, "stop %q, steps end with %q", o.Stop, step)
			require.Equal(t, llmrun.StopString, c.Stats.StopReason)
		}
		require.Greater(t, steps, 1)
		return
	}
	require.Fail(t, "no token suits")
}

// TestBeamsAreThoseOfASearchFromTheBeginning compares beams with those of a search in which every continuation is
// generated from the prompt on, in a large and in the smallest budget.
func TestBeamsAreThoseOfASearchFromTheBeginning(t *testing.T) {
	seed := uint64(5)
	o := llmrun.BeamOptions{GenerateOptions: limit(18), Width: 2, Expand: 2, Step: "."}
	o.Sampling.Temperature, o.Sampling.Seed = 0.8, &seed
	options := llmrun.Options{Threads: 2, Context: 128, Drafts: llmrun.DraftOptions{Drafter: llmrun.DraftOff}}
	e := open(t, demoModel, options)
	want := searched(t, e, o)
	require.Len(t, want, 2)
	steps := 0
	o.OnStep = func(all, kept []*llmrun.Candidate) {
		require.LessOrEqual(t, len(all), 4)
		require.LessOrEqual(t, len(kept), 2)
		steps++
	}
	options.Memory.RAM = minimum(t, demoModel, options)
	for _, engine := range []*llmrun.Engine{e, open(t, demoModel, options)} {
		s := newSession(t, engine)
		var got []beam
		var first *llmrun.Candidate
		for c, err := range s.Beams(context.Background(), llmrun.Prompt{IDs: testIDs(t, e, foxPrompt)}, o) {
			require.NoError(t, err)
			if first == nil {
				first = c
			}
			require.Len(t, c.IDs, c.Stats.GeneratedTokens)
			got = append(got, beam{c.IDs, c.LogProbs, c.Text, c.Score, true})
		}
		require.Equal(t, want, got)
		require.NoError(t, s.Choose(context.Background(), first))
	}
	require.Greater(t, steps, 2, "answers have several steps")
}

// TestBeamsEndEarly returns errors of options, of Score and of the context, breaks out of the loop, and frees all forks.
func TestBeamsEndEarly(t *testing.T) {
	e := open(t, demoModel, llmrun.Options{Threads: 2, Context: 256})
	s := newSession(t, e)
	seed := uint64(1)
	last := func(ctx context.Context, o llmrun.BeamOptions) (err error) {
		o.Sampling.Temperature, o.Sampling.Seed, o.Step = 0.8, &seed, "."
		for _, err = range s.Beams(ctx, llmrun.Prompt{Text: "Once upon a time"}, o) {
			if err == nil {
				break
			}
		}
		return err
	}
	require.NoError(t, last(context.Background(), llmrun.BeamOptions{GenerateOptions: limit(12), Width: 2, Expand: 1}))
	for _, o := range []llmrun.BeamOptions{{Width: 0, Expand: 1}, {Width: 1, Expand: 0}, {Width: 64, Expand: 64}} {
		require.ErrorIs(t, last(context.Background(), o), llmrun.ErrOptions)
	}
	broken := errors.New("broken")
	calls := 0
	fails := func(context.Context, *llmrun.Candidate) (float64, error) {
		if calls++; calls > 3 {
			return 0, broken
		}
		return 1, nil
	}
	require.ErrorIs(t, last(context.Background(), llmrun.BeamOptions{GenerateOptions: limit(40), Width: 2, Expand: 2, Score: fails}), broken)
	ctx, cancel := context.WithCancel(context.Background())
	cancels := func([]*llmrun.Candidate, []*llmrun.Candidate) { cancel() }
	require.ErrorIs(t, last(ctx, llmrun.BeamOptions{GenerateOptions: limit(60), Width: 2, Expand: 2, OnStep: cancels}), context.Canceled)
	require.NoError(t, s.Close())
	require.NoError(t, e.Close())
	require.Zero(t, e.MemoryUsed(), "all forks are closed")
}
