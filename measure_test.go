package llmrun_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

func TestLogitsAtPositions(t *testing.T) {
	e := demo(t)
	ctx := context.Background()
	ids := testutil.Must(e.Tokenizer().Encode("Once upon a time there was a little girl.", llmrun.EncodeOptions{}))
	rows, err := e.Logits(ctx, ids, []int{4, 0, 9, 4})
	require.NoError(t, err)
	require.Len(t, rows, 4)
	require.Equal(t, rows[0], rows[3], "the same position twice")
	for i, pos := range []int{4, 0, 9} {
		alone, err := e.Logits(ctx, ids[:pos+1], nil)
		require.NoError(t, err)
		require.Len(t, alone, 1)
		require.Len(t, alone[0], e.Info().Vocab)
		require.Equal(t, alone[0], rows[i], "what follows does not change position %d", pos)
	}
	first := newSession(t, e)
	a := complete(t, first.GenerateIDs(ctx, ids, limit(1)))
	require.Equal(t, int32(slices.Index(rows[2], slices.Max(rows[2]))), a.IDs[0])

	none, err := e.Logits(ctx, ids, []int{})
	require.NoError(t, err)
	require.Empty(t, none)
	for _, at := range [][]int{{-1}, {0, len(ids)}} {
		_, err := e.Logits(ctx, ids, at)
		require.ErrorIs(t, err, llmrun.ErrOptions)
		require.ErrorContains(t, err, "position")
	}
	_, err = e.Logits(ctx, nil, nil)
	require.ErrorIs(t, err, llmrun.ErrOptions)
}

// TestPerplexityWindows compares the perplexity of a text with the sum over its windows.
func TestPerplexityWindows(t *testing.T) {
	e := demo(t)
	ctx := context.Background()
	ids := testutil.Must(e.Tokenizer().Encode(demoReference(t).Greedy[0].Text, llmrun.EncodeOptions{}))
	require.Greater(t, len(ids), 41)
	ids = ids[:41]
	var sum float64
	for _, part := range [][]int32{ids[:20], ids[20:40]} { // the last window has one token and no prediction
		p, err := e.Perplexity(ctx, part, llmrun.PerplexityOptions{})
		require.NoError(t, err)
		require.Equal(t, llmrun.Perplexity{Tokens: 20, Scored: 19, MeanNLL: p.MeanNLL, PPL: math.Exp(p.MeanNLL)}, p)
		sum += 19 * p.MeanNLL
	}
	var progress []int
	p, err := e.Perplexity(ctx, ids, llmrun.PerplexityOptions{Context: 20, Progress: func(done, total int) {
		require.Equal(t, len(ids), total)
		progress = append(progress, done)
	}})
	require.NoError(t, err)
	require.Equal(t, 41, p.Tokens)
	require.Equal(t, 38, p.Scored)
	require.InDelta(t, sum/38, p.MeanNLL, 1e-12)
	require.Equal(t, []int{20, 40, 41}, progress)

	for _, o := range []int{1, -1, e.Info().MaxContext + 1} {
		_, err := e.Perplexity(ctx, ids, llmrun.PerplexityOptions{Context: o})
		require.ErrorIs(t, err, llmrun.ErrOptions)
		require.ErrorContains(t, err, "Context")
	}
	_, err = e.Perplexity(ctx, ids[:1], llmrun.PerplexityOptions{})
	require.ErrorIs(t, err, llmrun.ErrOptions)
}

// TestReportsLeaveMeasurementsOut compares the reported maximum of the ledger with and without the
// measurement of the machine, which takes more than the bundled model.
func TestReportsLeaveMeasurementsOut(t *testing.T) {
	ledger := func(measure bool) int64 {
		e := open(t, demoModel, llmrun.Options{Threads: 2, Context: 512, Lab: llmrun.LabOptions{Measure: measure}, Memory: llmrun.MemoryOptions{RAM: 1 << 30}})
		fox(t, e, 2)
		return e.Memory().Ledger
	}
	require.InDelta(t, ledger(false), ledger(true), 4<<20)
}

// TestPerplexityWindowFitsSession checks that the default window is at most the session's
// limit.
func TestPerplexityWindowFitsSession(t *testing.T) {
	e := open(t, demoModel, llmrun.Options{Context: 16})
	ids := testutil.Must(e.Tokenizer().Encode(demoReference(t).Greedy[0].Text, llmrun.EncodeOptions{}))[:32]
	p, err := e.Perplexity(context.Background(), ids, llmrun.PerplexityOptions{})
	require.NoError(t, err)
	require.Equal(t, 30, p.Scored, "two windows")
}

func TestIDsOutsideVocabulary(t *testing.T) {
	e := demo(t)
	ctx := context.Background()
	for _, id := range []int32{-1, 6144, math.MaxInt32, math.MinInt32} {
		ids := []int32{1, 2, id}
		s := newSession(t, e)
		require.ErrorIs(t, collect(s.GenerateIDs(ctx, ids, limit(1))).err, llmrun.ErrToken)
		require.Zero(t, s.Len())
		_, err := e.Logits(ctx, ids, nil)
		require.ErrorIs(t, err, llmrun.ErrToken)
		require.ErrorContains(t, err, "6144")
		_, err = e.Perplexity(ctx, ids, llmrun.PerplexityOptions{})
		require.ErrorIs(t, err, llmrun.ErrToken)
		_, err = e.Tokenizer().Decode(ids)
		require.ErrorIs(t, err, llmrun.ErrToken)
		_, ok := e.Tokenizer().Piece(id)
		require.False(t, ok)
	}
}
