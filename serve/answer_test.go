package serve

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// demoUse opens the demo model of a server, as a request does.
func demoUse(t *testing.T) *use {
	s := newDemo(nil)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	e, err := s.models.find("demo")
	require.NoError(t, err)
	engine, err := s.models.use(t.Context(), e.entry)
	require.NoError(t, err)
	t.Cleanup(func() { s.models.release(e.entry) })
	return &use{offered: e, server: s, engine: engine}
}

// TestRequestsWithoutMemory checks that a request that finds no memory closes the sessions that are kept warm and tries again, that
// one that cannot run is told so, and that an answer that has begun goes on where it ended.
func TestRequestsWithoutMemory(t *testing.T) {
	u := demoUse(t)
	s, e := u.server, u.offered
	attempts := 0
	// failing fails before or behind the first piece, as often as it is said.
	failing := func(times int, failure error, begins bool) prompt {
		attempts = 0
		return func(ctx context.Context, session *llmrun.Session, o llmrun.GenerateOptions) iter.Seq2[llmrun.Piece, error] {
			return func(yield func(llmrun.Piece, error) bool) {
				if attempts++; attempts > times {
					session.Generate(ctx, "Once upon a time", o)(yield)
				} else if !begins || yield(llmrun.Piece{Text: "x"}, nil) {
					yield(llmrun.Piece{}, failure)
				}
			}
		}
	}
	generate := func(p prompt) (text string, err error) {
		_, err = u.generate(t.Context(), p, llmrun.GenerateOptions{MaxTokens: 3}, func(p *llmrun.Piece) error {
			text += p.Text
			return nil
		})
		return text, err
	}
	text, err := generate(failing(0, nil, false))
	require.NoError(t, err)
	require.Len(t, e.warm, 1)
	again, err := generate(failing(1, fmt.Errorf("pages: %w", llmrun.ErrBudget), false))
	require.NoError(t, err)
	require.Equal(t, text, again)
	require.Equal(t, 2, attempts)
	require.Len(t, e.warm, 1, "the one before was closed, and this one is kept")

	_, err = generate(failing(9, fmt.Errorf("pages: %w", llmrun.ErrBudget), false))
	require.ErrorIs(t, err, llmrun.ErrBudget)
	require.Equal(t, 2, attempts, "there is nothing more to close or to wait for")
	require.Equal(t, http.StatusServiceUnavailable, s.problemOf(t.Context(), err).status)
	_, tooLittle := llmrun.Open(e.Path, llmrun.Options{FS: e.Options.FS, Memory: llmrun.MemoryOptions{RAM: 1 << 20}})
	var minimum *llmrun.MinimumError
	require.ErrorAs(t, tooLittle, &minimum)
	_, err = generate(failing(9, tooLittle, false))
	require.Equal(t, http.StatusRequestEntityTooLarge, s.problemOf(t.Context(), err).status)
	_, err = generate(failing(0, nil, false))
	require.NoError(t, err)
	text, err = generate(failing(9, llmrun.ErrBudget, true))
	require.ErrorIs(t, err, llmrun.ErrBudget)
	require.Equal(t, "x", text)
	require.Equal(t, 2, attempts, "there was a session to close")
}

// TestAnswersWithoutMemoryGoOn checks that an answer for which there is no memory behind some of its pieces is generated again with the
// seed that it had, and that each piece is given and counted once.
func TestAnswersWithoutMemoryGoOn(t *testing.T) {
	u := demoUse(t)
	var seeds []uint64
	given := 0
	o := llmrun.GenerateOptions{MaxTokens: 8, IgnoreEOS: true, Sampling: llmrun.Sampling{Temperature: 1.5}}
	generate := func(pieces, failures int) (text string) {
		seeds, given = nil, 0
		_, err := u.generate(t.Context(), func(ctx context.Context, session *llmrun.Session, o llmrun.GenerateOptions) iter.Seq2[llmrun.Piece, error] {
			return func(yield func(llmrun.Piece, error) bool) {
				got := 0
				for p, err := range session.Generate(ctx, "Once upon a time", o) {
					if got++; got > pieces && len(seeds) < failures {
						seeds = append(seeds, session.Stats().Seed)
						yield(llmrun.Piece{}, llmrun.ErrBudget)
						return
					}
					if !yield(p, err) {
						return
					}
				}
				seeds = append(seeds, session.Stats().Seed)
			}
		}, o, func(p *llmrun.Piece) error {
			text, given = text+p.Text, given+1
			return nil
		})
		require.NoError(t, err)
		return text
	}
	generate(8, 0) // leaves a session to close
	before := metricOf(t, u.server, `llmrun_tokens_total{kind="generated"}`)
	text := generate(3, 1)
	require.Len(t, seeds, 2)
	require.Equal(t, seeds[0], seeds[1])
	require.Equal(t, 8, given)
	require.Equal(t, before+8, metricOf(t, u.server, `llmrun_tokens_total{kind="generated"}`))
	o.Sampling.Seed = &seeds[0]
	require.Equal(t, generate(8, 0), text)
}

// TestProbabilitiesAreReserved keeps the probabilities of tokens in a budget until the request ends, and gives back those of an attempt that
// failed.
func TestProbabilitiesAreReserved(t *testing.T) {
	s := newDemo(nil)
	defer s.Close()
	e, err := s.models.find("demo")
	require.NoError(t, err)
	engine, err := s.models.use(t.Context(), e.entry)
	require.NoError(t, err)
	defer s.models.release(e.entry)
	u := &use{offered: e, server: s, engine: engine}
	entry, before := &chatLogProb{Top: make([]chatToken, maxTopLogProbs)}, engine.Memory().Held["heap"]
	kept := tokenRoom{u: u}
	require.NoError(t, kept.keep(nil))
	kept.drop(llmrun.ErrBudget)
	require.Empty(t, u.rooms, "a request for no probabilities has no room")
	require.NoError(t, kept.keep(entry))
	require.Equal(t, before, engine.Memory().Held["heap"], "a few tokens are part of every plan")
	const tokens = 1000
	for range tokens {
		require.NoError(t, kept.keep(entry))
	}
	few := engine.Memory().Held["heap"] - before
	require.Greater(t, few, int64(tokens*maxTopLogProbs*300))
	failed := tokenRoom{u: u}
	for range tokens {
		require.NoError(t, failed.keep(entry))
	}
	require.Greater(t, engine.Memory().Held["heap"]-before, few)
	failed.drop(llmrun.ErrBudget)
	kept.drop(nil)
	require.Equal(t, few, engine.Memory().Held["heap"]-before)
	u.end()
	require.Equal(t, before, engine.Memory().Held["heap"])
}
