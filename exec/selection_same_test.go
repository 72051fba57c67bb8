package exec

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/store/vfs"
)

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
