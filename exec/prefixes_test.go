package exec

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestSequencesHoldAPrefixOnce extends sequences of a few texts that begin alike, cuts, forks and closes
// them at random. Each gets the logits that its tokens get alone, and the last sequence that closes frees
// all pages.
func TestSequencesHoldAPrefixOnce(t *testing.T) {
	for _, name := range []string{"llama3", "gemma3", "phi3_longrope", "lfm2"} {
		t.Run(name, func(t *testing.T) {
			dir := longFixture(t, name, 4096, 200)
			adopted := 0
			for run := range testutil.Effort(2, 20) {
				rng := rand.New(rand.NewPCG(uint64(run), 3))
				format := kv.Formats()[(run+len(name))%len(kv.Formats())]
				alone := openFixture(t, dir, "config.json", Options{Threads: 1, KV: format})
				o := Options{Threads: 2, Chunk: 40 + rng.IntN(100), KV: format}
				if run%2 == 1 {
					o = coldOptions(t, rng, vfs.OS(), format, alone.KVBytesPerToken()*kv.BlockTokens)
				}
				m := openFixture(t, dir, "config.json", o)
				adopted += adoptAtRandom(t, m, alone, rng)
				require.Empty(t, m.passes.prefixes.nodes)
				require.Zero(t, m.KVStats().HotPages)
			}
			require.True(t, adopted > 0 || name == "lfm2", "its state is known at few pages")
		})
	}
}

// adoptAtRandom returns the tokens that sequences did not compute.
func adoptAtRandom(t *testing.T, m, alone *Model, rng *rand.Rand) (adopted int) {
	var all []*Sequence
	texts := [][]int32{longPrompt(m.Spec.Vocab, 500, rng.Uint64())}
	for range 3 { // texts that begin alike
		origin := texts[rng.IntN(len(texts))]
		texts = append(texts, slices.Concat(origin[:rng.IntN(len(origin))], longPrompt(m.Spec.Vocab, 200, rng.Uint64())))
	}
	for step := range 16 {
		switch s, err := (*Sequence)(nil), error(nil); {
		case len(all) < 2 || step%3 == 0 && len(all) < 6:
			if s, err = m.NewSequence(0); len(all) > 0 && rng.IntN(3) == 0 {
				s.Close()
				s, err = all[rng.IntN(len(all))].Fork()
			}
			require.NoError(t, err)
			all = append(all, s)
		case step%5 == 4:
			i := rng.IntN(len(all))
			all[i].Close()
			all = slices.Delete(all, i, i+1)
		default:
			ids := texts[rng.IntN(len(texts))]
			ids = ids[:1+rng.IntN(len(ids))]
			adopted += extendTo(t, m, alone, all[rng.IntN(len(all))], ids)
		}
	}
	for _, s := range all {
		s.Close()
	}
	return adopted
}

// extendTo makes a sequence one of ids, as a session does, and compares its last logits. It returns the
// tokens that the sequence took from another one.
func extendTo(t *testing.T, m, alone *Model, s *Sequence, ids []int32) int {
	common := 0
	for common < min(s.Len(), len(ids)-1) && s.ids[common] == ids[common] {
		common++
	}
	held := s.Truncate(common)
	AdoptPrefix(t.Context(), s, ids)
	adopted := s.Len() - held
	var got []float32
	require.NoError(t, m.Extend(t.Context(), s, ids[s.Len():], &ExtendOptions{Each: func(_ int, logits []float32) error {
		got = slices.Clone(logits)
		return nil
	}}))
	whole, err := alone.NewSequence(0)
	require.NoError(t, err)
	defer whole.Close()
	if s.longRope { // it was long before
		whole.Expect(whole.Limit())
	}
	want := extendAll(t, alone, whole, ids)
	require.Equal(t, want[len(ids)-1], got, "%d tokens, of which %d were there and %d adopted", len(ids), held, adopted)
	return adopted
}

// TestSamePromptsAtTheSameTime computes a prompt in several sequences at the same time: when it is computed,
// its pages are there once.
func TestSamePromptsAtTheSameTime(t *testing.T) {
	m := openFixture(t, smallFixture(t, "llama3"), "config.json", Options{Threads: 2, Chunk: 256, KV: kv.K8V8})
	ids := longPrompt(m.Spec.Vocab, 31, 1)
	for range 4 {
		ids = append(ids, ids[:31]...)
	}
	all := callersOf(t, m, 4, nil, ids)
	inOnePass(m, all, nil)
	for _, c := range all {
		require.NoError(t, c.err)
		require.Equal(t, allLogits(t, m, ids), c.logits)
	}
	require.Equal(t, 2+len(all), m.KVStats().HotPages, "two full pages, and the last page of each")
	for _, c := range all {
		c.ids = []int32{1}
	}
	inOnePass(m, all, nil)
	for _, c := range all {
		require.Equal(t, all[0].logits, c.logits)
	}
}

// TestRecurrentSequencesHoldAPrefixOnce computes texts that begin alike in sequences with recurrent state, each of which
// computes all of its tokens: the pages of the common ones are in memory once. A sequence that is cut and goes on differently
// leaves the pages of the others as they are.
func TestRecurrentSequencesHoldAPrefixOnce(t *testing.T) {
	forRecurrent(t, func(t *testing.T, dir string) {
		m := openFixture(t, dir, "config.json", Options{Threads: 2, Chunk: 50, KV: kv.K8V8})
		if m.KVBytesPerToken() == 0 {
			t.Skip("no layer has keys")
		}
		page := m.cache.PageTokens()
		ids := longPrompt(m.Spec.Vocab, 2*page+20, 3)
		want := allLogits(t, m, ids)
		require.Zero(t, m.KVStats().HotPages)
		all := callersOf(t, m, 4, ids[:2*page+1], nil)
		require.Equal(t, 2+len(all), m.KVStats().HotPages, "two full pages, and the last page of each")
		all[1].seq.Truncate(0)
		extendAll(t, m, all[1].seq, longPrompt(m.Spec.Vocab, 30, 8))
		for i, c := range all {
			if i != 1 {
				require.Equal(t, want[2*page+1:], extendAll(t, m, c.seq, ids[2*page+1:]), "sequence %d", i)
			}
		}
		for _, c := range all {
			c.seq.Close()
		}
		require.Zero(t, m.KVStats().HotPages)
		require.Empty(t, m.passes.prefixes.nodes)
	})
}

// TestRecurrentSequencesTakeAPrefix gives sequences with recurrent state the pages of a prompt that another one has computed, with the
// state behind them. It is theirs when the other one is cut, goes on differently or closes. Where the others have a state behind other
// tokens only, a sequence computes all of its own.
func TestRecurrentSequencesTakeAPrefix(t *testing.T) {
	forRecurrent(t, func(t *testing.T, dir string) {
		m := openFixture(t, dir, "config.json", Options{Threads: 2, Chunk: 50, KV: kv.K8V8})
		page := m.cache.PageTokens()
		ids := longPrompt(m.Spec.Vocab, 3*page+20, 3)
		want := allLogits(t, m, ids)
		all := callersOf(t, m, 5, nil, nil)
		first, next, last, fork, other := all[0].seq, all[1].seq, all[2].seq, all[3].seq, all[4].seq
		extendAll(t, m, first, ids[:2*page+9])
		AdoptPrefix(t.Context(), next, ids[:2*page+9])
		require.Equal(t, 2*page, next.Len())
		require.Equal(t, want[2*page:], extendAll(t, m, next, ids[2*page:]))
		AdoptPrefix(t.Context(), last, ids)
		require.Equal(t, 3*page, last.Len())
		require.Equal(t, 2*page, first.Truncate(2*page+1))
		AdoptPrefix(t.Context(), fork, ids[:2*page+1])
		require.Equal(t, 2*page, fork.Len(), "a sequence that was cut has its state at the mark")
		require.Zero(t, first.Truncate(5))
		extendAll(t, m, first, longPrompt(m.Spec.Vocab, 2*page, 8))
		next.Close()
		require.Equal(t, want[3*page:], extendAll(t, m, last, ids[3*page:]))
		require.Equal(t, want[2*page:], extendAll(t, m, fork, ids[2*page:]))
		elsewhere := slices.Concat(ids[:page+5], longPrompt(m.Spec.Vocab, page, 8))
		AdoptPrefix(t.Context(), other, elsewhere)
		require.Zero(t, other.Len())
		require.Equal(t, allLogits(t, m, elsewhere), extendAll(t, m, other, elsewhere))
		for _, c := range all {
			c.seq.Close()
		}
		require.Zero(t, m.KVStats().HotPages)
		require.Empty(t, m.passes.prefixes.nodes)
	})
}

// TestSelectedPrefixesAreNotShared shares tokens that attended to all pages, and not those that attended to
// selected ones.
func TestSelectedPrefixesAreNotShared(t *testing.T) {
	dir := longFixture(t, "llama3", 4096, 0)
	o := Options{Threads: 2, KV: kv.K8V8, Chunk: 256, Select: Selection{Fraction: 0.1}}
	m, alone := openFixture(t, dir, "config.json", o), openFixture(t, dir, "config.json", o)
	ids := longPrompt(m.Spec.Vocab, 2700, 1)
	a := callersOf(t, m, 1, ids[:2600], ids[2600:])[0]
	for i := range a.ids { // questions select
		require.NoError(t, m.Extend(t.Context(), a.seq, a.ids[i:i+1], &ExtendOptions{}))
	}
	require.True(t, a.seq.Selected())
	b, want := callersOf(t, m, 1, nil, nil)[0], callersOf(t, alone, 1, ids[:2600], nil)[0]
	AdoptPrefix(t.Context(), b.seq, ids)
	require.Equal(t, 2560, b.seq.Len())
	require.NoError(t, m.Extend(t.Context(), b.seq, ids[2560:2600], &ExtendOptions{Prompt: 2600}))
	for i := 2600; i < 2690; i++ {
		require.Equal(t, extendAll(t, alone, want.seq, ids[i:i+1]), extendAll(t, m, b.seq, ids[i:i+1]))
	}
}
