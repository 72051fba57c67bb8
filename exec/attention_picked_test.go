package exec

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// selectingModel returns a model that selects a tenth of its pages, of which most are on flash
// behind a text of n tokens, and the sequence of the text.
func selectingModel(t *testing.T, fsys vfs.FS, dir string, n int) (*Model, *Sequence, []int32) {
	budget := tiering.New(0)
	m := openFixture(t, longFixture(t, "llama3", 8192, 0), "config.json", Options{
		Threads: 2, KV: kv.F32, Budget: budget, KVHot: 1, KVRing: 4 << 20, Select: Selection{Fraction: 0.1},
		KVSpill: kv.NewScratch(fsys, dir, budget),
	})
	ids := longPrompt(m.Spec.Vocab, n+64, 7)
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.NoError(t, m.Extend(context.Background(), s, ids[:n], &ExtendOptions{}))
	return m, s, ids
}

// TestSelectionReadsATenth decodes with nearly all pages on flash, including those that every
// token attends to: a token reads at most a tenth of the bytes.
func TestSelectionReadsATenth(t *testing.T) {
	m, s, ids := selectingModel(t, vfs.OS(), t.TempDir(), 4000)
	extendAll(t, m, s, ids[:1]) // fills the cache of picked pages
	before := m.KVStats()
	for i := range 20 {
		extendAll(t, m, s, ids[i:i+1])
	}
	after := m.KVStats()
	read, cold := after.Read-before.Read, after.Cold-before.Cold
	require.Positive(t, read)
	require.GreaterOrEqual(t, cold, 20*int64(before.ColdPages*before.PageBytes))
	require.LessOrEqual(t, cold, 20*int64(after.ColdPages*after.PageBytes))
	t.Logf("read %.1f %%", 100*float64(read)/float64(cold))
	require.LessOrEqual(t, float64(read), 0.1*float64(cold))
}

// TestPickedPagesAllocateNothing decodes with pages on flash. None of the tokens completes a page.
func TestPickedPagesAllocateNothing(t *testing.T) {
	m, s, _ := selectingModel(t, vfs.OS(), t.TempDir(), 3010)
	s.ids = append(make([]int32, 0, 4096), s.ids...)
	next, reader, ctx := []int32{1}, &ExtendOptions{Each: func(int, []float32) error { return nil }}, context.Background()
	before := m.KVStats().Read
	require.Zero(t, testing.AllocsPerRun(40, func() {
		if err := m.Extend(ctx, s, next, reader); err != nil {
			t.Fatal(err)
		}
	}))
	require.Positive(t, m.KVStats().Read-before)
}

// TestPickedPagesAreVerified flips a bit of every read while tokens select pages.
func TestPickedPagesAreVerified(t *testing.T) {
	fsys := &damagedFS{FS: vfs.NewMem()}
	m, s, ids := selectingModel(t, fsys, "kv", 2500)
	want := extendAll(t, m, s, ids[:1])[0]
	s.Truncate(2500)
	m.pickedPages.Forget()
	fsys.on.Store(true)
	require.ErrorIs(t, m.Extend(context.Background(), s, ids[:1], &ExtendOptions{}), kv.ErrCorrupt)
	fsys.on.Store(false)
	require.Equal(t, want, extendAll(t, m, s, ids[:1])[0])
}
