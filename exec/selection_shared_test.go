package exec

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

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
				var got [][]float32
				options := &ExtendOptions{Want: func(int) bool { return true }, Each: func(_ int, logits []float32) error {
					got = append(got, slices.Clone(logits))
					return nil
				}}
				for _, x := range texts {
					addRun(t, &b, x.read(t, m), x.ids, options)
					b.runs[len(b.runs)-1].selects = x.selects
				}
				require.NoError(t, m.forward(t.Context(), &b))
				require.Equal(t, o.KVSpill != nil, m.KVStats().ColdPages > 0)
				for i, r := range b.runs {
					require.Equal(t, texts[i].want, got[r.row:r.row+r.count], "text %d", i)
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
