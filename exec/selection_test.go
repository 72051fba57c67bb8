package exec

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// TestSelectionRule walks through the ranges of tokens that attend alike.
func TestSelectionRule(t *testing.T) {
	type span struct {
		to      int
		selects bool
	}
	for name, c := range map[string]struct {
		exact              int // leading tokens that attended exactly
		first, end, prompt int
		want               []span
	}{
		"a short input selects":                   {0, 1000, 1064, 0, []span{{1064, true}}},
		"a long one does not":                     {0, 1000, 1065, 0, []span{{1065, false}}},
		"the end of a prompt in the prefix cache": {0, 1000, 1010, 1010, []span{{1010, false}}},
		"an answer again, and a question":         {0, 1000, 1020, 10, []span{{1020, true}}},
		"both are more than select together":      {0, 1000, 1100, 60, []span{{1040, true}, {1100, true}}},
		"an answer again, and a long input":       {0, 1000, 1100, 80, []span{{1020, true}, {1100, false}}},
		"a document again, and a question":        {1000, 1000, 1040, 10, []span{{1030, false}, {1040, true}}},
		"a document again, and a long input":      {1000, 1000, 1200, 170, []span{{1200, false}}},
		"all of a session again":                  {0, 0, 2000, 10, []span{{1990, false}, {2000, true}}},
	} {
		s := &Sequence{summaries: &kv.Summaries{}, exactTokens: c.exact, ids: make([]int32, c.first)}
		r := s.selectionRule(c.first, c.end, c.prompt)
		var got []span
		for at := c.first; at < c.end; {
			end, selects := r.spanAt(at)
			require.Greater(t, end, at, name)
			if selects {
				require.LessOrEqual(t, end-at, selectRows, name)
			}
			got, at = append(got, span{end, selects}), end
		}
		require.Equal(t, c.want, got, name)
		s.summaries = nil
		r = s.selectionRule(c.first, c.end, c.prompt)
		end, selects := r.spanAt(c.first)
		require.Equal(t, span{c.end, false}, span{end, selects}, "%s: a model that attends exactly needs one range", name)
	}
}

// sharedText is a document and the tokens that follow it in a pass with those of other texts.
type sharedText struct {
	document, ids []int32
	selects       bool
	want          [][]float32 // logits after each of ids, in a pass of its own
}

// read returns a sequence of the document.
func (x *sharedText) read(t *testing.T, m *Model) *Sequence {
	t.Helper()
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.NoError(t, m.Extend(context.Background(), s, x.document, &ExtendOptions{}))
	return s
}

// TestSharedPassSelectsForEachSequence computes questions, which select, and a part of a prompt,
// which does not, in one pass. Each sequence gets the logits of a pass of its own, with its pages
// in memory and on flash.
func TestSharedPassSelectsForEachSequence(t *testing.T) {
	for _, name := range []string{"llama3", "gemma3"}[:testutil.Effort(1, 2)] {
		t.Run(name, func(t *testing.T) {
			dir := longFixture(t, name, 4096, 200) // a window of gemma3
			o := Options{Threads: 2, KV: kv.K8V8, Chunk: 256, Select: Selection{Fraction: 0.1}}
			alone := openFixture(t, dir, "config.json", o)
			ids := longPrompt(alone.Spec.Vocab, 3000, 7)
			texts := []*sharedText{
				{document: ids[:2560], ids: ids[:3], selects: true},
				{document: ids[100:700], ids: ids[700:850]},
				{document: ids[300:2500], ids: ids[7:8], selects: true},
				{document: ids[:40], ids: ids[40:45], selects: true},
			}
			for _, x := range texts {
				x.want = extendAll(t, alone, x.read(t, alone), x.ids)
			}
			require.Less(t, alone.SelectionStats().Selected, alone.SelectionStats().Candidates)
			budget := tiering.New(0)
			cold := o
			cold.Budget, cold.KVHot, cold.KVRing = budget, 1, 1<<20
			cold.KVSpill = kv.NewScratch(vfs.OS(), t.TempDir(), budget)
			for _, o := range []Options{o, cold} {
				m := openFixture(t, dir, "config.json", o)
				var b Batch
				got := make([][][]float32, len(texts)) // logits of each text
				for i, x := range texts {
					options := &ExtendOptions{Want: func(int) bool { return true }, Each: func(_ int, logits []float32) error {
						got[i] = append(got[i], slices.Clone(logits))
						return nil
					}}
					addRun(t, &b, x.read(t, m), x.ids, options)
					b.runs[len(b.runs)-1].selects = x.selects
				}
				require.NoError(t, m.forward(t.Context(), &b))
				require.Equal(t, o.KVSpill != nil, m.KVStats().ColdPages > 0)
				for i, x := range texts {
					require.Equal(t, x.want, got[i], "text %d", i)
				}
			}
		})
	}
}

// addRun adds a sequence's next tokens to a batch, as sharedPasses does.
func addRun(t *testing.T, b *Batch, s *Sequence, ids []int32, o *ExtendOptions) {
	s.piece.ctx = t.Context()
	s.piece.begin(o, s.Len(), s.Len()+len(ids)-1)
	r := run{seq: s, pos: s.Len(), count: len(ids)}
	require.NoError(t, r.grow(t.Context()))
	b.add(s, ids, false)
	b.addWanted()
}

// selectingText is a document, which attends exactly, and what follows it with selection.
type selectingText struct {
	ids      []int32
	document int
	want     [][]float32 // logits after each token behind the document
}

// TestSelectionDependsOnTokensAlone is metamorphic: models with random threads, chunks, pages,
// rings and limits of memory read the same text under --kv-select 0.1. Their document is computed
// or restored from flash; on the way pages spill, kept pages are forgotten, sequences are restored
// again, forked, truncated, cancelled, and others read between them. All logits are the same, to
// the last bit.
func TestSelectionDependsOnTokensAlone(t *testing.T) {
	skipOnSlowKernels(t)
	rounds := testutil.Effort(2, 8)
	for _, format := range []kv.Format{kv.K8V8, kv.K4V8} {
		t.Run(format.String(), func(t *testing.T) {
			dir, selection := longFixture(t, "llama3", 8192, 0), Selection{Fraction: 0.1}
			whole := openFixture(t, dir, "config.json", Options{Threads: 1, KV: format, Select: selection})
			text := &selectingText{ids: longPrompt(whole.Spec.Vocab, 2*kv.BlockTokens*20+40, 8), document: 2 * kv.BlockTokens * 20}
			s, err := whole.NewSequence(0)
			require.NoError(t, err)
			defer s.Close()
			require.NoError(t, whole.Extend(context.Background(), s, text.ids[:text.document], &ExtendOptions{}))
			text.want = extendAll(t, whole, s, text.ids[text.document:])
			st := whole.SelectionStats()
			require.Less(t, st.Selected, st.Candidates)
			saved := t.TempDir()
			saveDocument(t, whole, s, saved, text.ids)
			rng := testutil.Random(t)
			for range rounds {
				o := coldOptions(t, rng, vfs.OS(), format, whole.KVBytesPerToken()*kv.BlockTokens)
				o.Select, o.KVPage = selection, kv.BlockTokens // pages of saved documents
				t.Log(o.describe())
				text.read(t, openFixture(t, dir, "config.json", o), saved, rng)
			}
		})
	}
}

// savedStores opens the stores in a directory.
func savedStores(t *testing.T, m *Model, dir string) Stores {
	t.Helper()
	d, err := segment.OpenDir(vfs.OS(), dir, 1<<30)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	stores, err := m.OpenStores(d, "fixture")
	require.NoError(t, err)
	return stores
}

func saveDocument(t *testing.T, m *Model, s *Sequence, dir string, ids []int32) {
	t.Helper()
	_, err := s.Save(savedStores(t, m, dir), ids, 1, false)
	require.NoError(t, err)
	require.Positive(t, s.Saved())
}

// begin returns a sequence of the document, computed or restored.
func (x *selectingText) begin(t *testing.T, m *Model, stores Stores, restore bool) *Sequence {
	t.Helper()
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	if restore {
		n, err := s.RestorePrefix(context.Background(), stores, x.ids[:x.document+1])
		require.NoError(t, err)
		require.Equal(t, x.document, n)
		return s
	}
	require.NoError(t, m.Extend(context.Background(), s, x.ids[:x.document], &ExtendOptions{}))
	return s
}

// read reads what follows the document in steps of random sizes and compares all logits.
func (x *selectingText) read(t *testing.T, m *Model, saved string, rng *rand.Rand) {
	t.Helper()
	stores := savedStores(t, m, saved)
	s := x.begin(t, m, stores, rng.IntN(2) == 0)
	defer func() { s.Close() }()
	for s.Len() < len(x.ids) {
		s = x.disturb(t, m, stores, s, rng)
		at := s.Len()
		n := min(len(x.ids)-at, 1+rng.IntN(1<<rng.IntN(5)))
		got := extendAll(t, m, s, x.ids[at:at+n])
		require.Equal(t, x.want[at-x.document:at-x.document+n], got, "position %d", at)
	}
	require.Positive(t, m.KVStats().Read)
}

// disturb does something that must not change what the sequence computes. It returns the sequence
// to continue with.
func (x *selectingText) disturb(t *testing.T, m *Model, stores Stores, s *Sequence, rng *rand.Rand) *Sequence {
	t.Helper()
	switch rng.IntN(9) {
	case 0:
		require.NoError(t, m.SetHot(hotLimit(rng, m.cache.PageTokens(), int64(m.cache.Stats().PageBytes))))
	case 1:
		m.pickedPages.Forget()
	case 2: // begins again with the document as it was saved
		s.Close()
		return x.begin(t, m, stores, true)
	case 3:
		f, err := s.Fork()
		require.NoError(t, err)
		s.Close()
		return f
	case 4:
		s.Truncate(x.document + rng.IntN(s.Len()-x.document+1))
	case 5: // an exact pass of another sequence, which uses the ring
		other, err := m.NewSequence(0)
		require.NoError(t, err)
		require.NoError(t, m.Extend(context.Background(), other, x.ids[:1500], &ExtendOptions{}))
		other.Close()
	case 6:
		at := s.Len()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.ErrorIs(t, m.Extend(ctx, s, x.ids[at:min(at+3, len(x.ids))], &ExtendOptions{}), context.Canceled)
		require.Equal(t, at, s.Len())
	}
	return s
}
