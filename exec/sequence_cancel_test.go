package exec

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/kv"
)

// TestACancelledPassLeavesNothing cancels the first chunk of a prompt at every place at which the pass looks, and
// then gives the sequence a short prompt: after a rewind to nothing, and without one. It has the logits of
// a new sequence, although the long prompt would have had other rotary frequencies, and no more pages.
func TestACancelledPassLeavesNothing(t *testing.T) {
	dir := longFixture(t, "phi3_longrope", 4096, 300)
	m := openFixture(t, dir, "config.json", Options{Threads: 1, KV: kv.F32, Chunk: 150})
	long := longPrompt(m.Spec.Vocab, 2*m.Spec.Ropes[0].Switch+150, 1)
	short := long[:9]
	want := allLogits(t, m, short)
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	for after, cancelled := 0, true; cancelled; after++ {
		err := m.Extend(&cancelAfter{Context: t.Context(), calls: after}, s, long, &ExtendOptions{})
		if cancelled = s.Len() == 0; cancelled {
			require.ErrorIs(t, err, context.Canceled)
		}
		require.Equal(t, (s.Len()+kv.BlockTokens-1)/kv.BlockTokens, m.KVStats().HotPages, "pages after a cancelled pass of %d steps", after)
		if after%2 == 1 {
			s.Truncate(0)
		}
		if cancelled {
			require.Equal(t, want, extendAll(t, m, s, short), "after a cancelled pass of %d steps", after)
		}
		s.Truncate(0)
	}
	require.Zero(t, m.KVStats().HotPages)
}

// TestFrequenciesFollowTheLength rewinds a long sequence to a part that is short, and continues it there and
// beyond the switch: the logits are those of a new sequence.
func TestFrequenciesFollowTheLength(t *testing.T) {
	dir := longFixture(t, "phi3_longrope", 4096, 300)
	m := openFixture(t, dir, "config.json", Options{Threads: 1, KV: kv.F32})
	limit := m.Spec.Ropes[0].Switch
	ids := longPrompt(m.Spec.Vocab, limit+20, 1)
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	for _, step := range []struct{ keep, to int }{{0, limit + 20}, {limit / 2, limit}, {limit - 1, limit + 1}, {limit, limit + 2}} {
		s.Truncate(step.keep)
		got := extendAll(t, m, s, ids[step.keep:step.to])
		want := allLogits(t, m, ids[:step.to])
		require.Equal(t, want[len(want)-1], got[len(got)-1], "%d tokens, then %d", step.keep, step.to)
	}
}
