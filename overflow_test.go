package llmrun_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// sliding returns options for a greedy generation of n tokens with OverflowSlide. It appends
// the number of tokens of each slide to dropped.
func sliding(n int, dropped *[]int) llmrun.GenerateOptions {
	o := limit(n)
	o.IgnoreEOS, o.Overflow = true, llmrun.OverflowSlide
	o.OnSlide = func(_, n int) { *dropped = append(*dropped, n) }
	return o
}

// TestSlideMatchesFreshSession generates beyond the limit several times, with all keys and
// values in memory and with most of them on flash. After each slide, the tokens are those of
// a new session whose prompt is the remaining tokens.
func TestSlideMatchesFreshSession(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name               string
		path               string
		limit, begin, step int
		o                  llmrun.Options
	}{
		{"model limit", tinyModel(t, nil), tinyContext, 16, 17, llmrun.Options{}},
		{"Options.Context", longTextModel(t), 300, 64, 87, llmrun.Options{Context: 300, Memory: llmrun.MemoryOptions{KV: "k8v8"}}},
		{"keys and values on flash", longTextModel(t), 384, 64, 129, llmrun.Options{Context: 384, Memory: llmrun.MemoryOptions{Chunk: 16, KV: "k8v8", KVRAM: 1}, Cache: llmrun.CacheOptions{KVDir: t.TempDir()}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := context.Background()
			e := open(t, c.path, c.o)
			s := newSession(t, e)
			require.Equal(t, c.limit, s.Limit())
			text := someIDs(e, c.limit-20)
			var dropped []int
			n := 20 + 2*c.step
			got := complete(t, s.GenerateIDs(ctx, text, sliding(n, &dropped))).IDs
			require.Len(t, got, n)
			require.Equal(t, llmrun.StopLength, s.Stats().StopReason)
			require.Equal(t, []int{c.step, c.step}, dropped)
			require.Equal(t, 2, s.Stats().Slides)
			require.Equal(t, 2*c.step, s.Stats().ForgottenTokens)
			if c.o.Memory.KVRAM > 0 {
				require.Positive(t, e.KVUse().ColdPages)
				require.Positive(t, s.Stats().DecodeKV.Read)
			}

			fresh := newSession(t, open(t, c.path, llmrun.Options{Context: c.limit, Memory: llmrun.MemoryOptions{KV: c.o.Memory.KV}}))
			for len(got) > 0 {
				next := complete(t, fresh.GenerateIDs(ctx, text, sliding(min(len(got), c.limit+1-len(text)), &dropped))).IDs
				require.Equal(t, got[:len(next)], next)
				require.Zero(t, fresh.Stats().Slides)
				text, got = slices.Concat(text, next), got[len(next):]
				text = slices.Concat(text[:c.begin], text[c.begin+c.step:])
				require.NoError(t, fresh.Reset())
			}
			require.Equal(t, c.limit, s.Len())
		})
	}
}

// TestSlideOfPrompt prefills a prompt that is too long. A longer prompt, such as the next
// turn of a conversation, loses the same tokens, so that its prefix stays cached.
func TestSlideOfPrompt(t *testing.T) {
	ctx := context.Background()
	e := open(t, tinyModel(t, nil), llmrun.Options{})
	s := newSession(t, e)
	text := someIDs(e, tinyContext+30)
	var dropped []int
	first := text[:tinyContext+20]
	got := complete(t, s.GenerateIDs(ctx, first, sliding(4, &dropped))).IDs
	require.Equal(t, []int{34}, dropped)
	require.Equal(t, len(first)-34, s.Stats().PromptTokens)
	rest := slices.Concat(text[:16], first[16+34:])
	fresh := newSession(t, e)
	require.Equal(t, got, complete(t, fresh.GenerateIDs(ctx, rest, sliding(4, &dropped))).IDs)
	require.Len(t, dropped, 1)

	o := sliding(1, &dropped)
	require.NoError(t, s.Reset())
	complete(t, s.GenerateIDs(ctx, text, o))
	require.Equal(t, []int{34, 34}, dropped)

	o.WholePrompt = true
	require.NoError(t, s.Reset())
	require.ErrorIs(t, collect(s.GenerateIDs(ctx, text, o)).err, llmrun.ErrContextFull)
	require.Len(t, dropped, 2, "nothing of the prompt is dropped")
	o = sliding(20, &dropped)
	o.WholePrompt = true
	complete(t, s.GenerateIDs(ctx, text[:tinyContext-4], o))
	require.Len(t, dropped, 3, "the answer slides")

	o = sliding(1, &dropped)
	o.Overflow = llmrun.OverflowStop
	require.NoError(t, s.Reset())
	err := collect(s.GenerateIDs(ctx, text, o)).err
	require.ErrorIs(t, err, llmrun.ErrContextFull)
	require.ErrorContains(t, err, "94 tokens with the prompt; the limit is 64")
	var full *llmrun.ContextFullError
	require.ErrorAs(t, err, &full)
	require.Equal(t, llmrun.ContextFullError{Tokens: 94, Limit: 64, Prompt: true}, *full)
	require.Zero(t, s.Len())

	o.Overflow = "wrap"
	require.ErrorIs(t, collect(s.GenerateIDs(ctx, text, o)).err, llmrun.ErrOptions)
}

// TestSlideInSmallestSessions slides with limits of a few tokens.
func TestSlideInSmallestSessions(t *testing.T) {
	for n := 1; n < 6; n++ {
		e := open(t, tinyModel(t, nil), llmrun.Options{Context: n})
		var dropped []int
		s := newSession(t, e)
		got := complete(t, s.GenerateIDs(context.Background(), someIDs(e, 9), sliding(20, &dropped))).IDs
		require.Len(t, got, 20)
		require.Positive(t, s.Stats().Slides)
		require.LessOrEqual(t, s.Len(), n+1)
	}
}
