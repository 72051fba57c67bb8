package exec

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// selectTokens is the length of a context with many more blocks than are always selected.
const selectTokens = 2600

// answerAll prefills a long text with exact attention, then reads tokens a few at a time, like a
// question and its answer, and returns their logits. Truncations and forks on the way must not
// change them.
func answerAll(t *testing.T, m *Model, ids []int32, rng *rand.Rand) (out [][]float32) {
	t.Helper()
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer func() { s.Close() }()
	require.NoError(t, m.Extend(context.Background(), s, ids[:selectTokens], &ExtendOptions{}))
	for at := selectTokens; at < len(ids); {
		n := min(len(ids)-at, 1+rng.IntN(9))
		got := extendAll(t, m, s, ids[at:at+n])
		switch rng.IntN(4) {
		case 0:
			if s.Truncate(at) == at {
				continue // repeats the step
			}
			s.Truncate(0)
			require.NoError(t, m.Extend(context.Background(), s, ids[:selectTokens], &ExtendOptions{}))
			at, out = selectTokens, nil // a model that cannot truncate partially begins again
			continue
		case 1:
			f, err := s.Fork()
			require.NoError(t, err)
			s.Close()
			s = f
		}
		out = append(out, got...)
		at += n
	}
	return out
}

// TestSelectionOfAllIsExact selects every block: the logits equal those without selection, to
// the last bit.
func TestSelectionOfAllIsExact(t *testing.T) {
	for _, c := range []struct {
		name   string
		window int
	}{{"llama3", 0}, {"gemma3", 200}, {"qwen3", 0}} {
		for _, format := range []kv.Format{kv.F32, kv.K8V8} {
			t.Run(c.name+"/"+format.String(), func(t *testing.T) {
				dir := longFixture(t, c.name, 4096, c.window)
				exact := openFixture(t, dir, "config.json", Options{Threads: 2, KV: format})
				ids := longPrompt(exact.Spec.Vocab, selectTokens+40, 7)
				want := answerAll(t, exact, ids, rand.New(rand.NewPCG(1, 1)))
				require.Zero(t, exact.SelectionStats())
				all := openFixture(t, dir, "config.json", Options{Threads: 2, KV: format, Select: Selection{Fraction: 1}})
				require.Equal(t, want, answerAll(t, all, ids, rand.New(rand.NewPCG(2, 1))))
				st := all.SelectionStats()
				require.Positive(t, st.Candidates)
				require.Equal(t, st.Candidates, st.Selected)
				some := openFixture(t, dir, "config.json", Options{Threads: 2, KV: format, Select: Selection{Fraction: 0.2}})
				require.NotEqual(t, want, answerAll(t, some, ids, rand.New(rand.NewPCG(3, 1))), "the selection left no block out")
				st = some.SelectionStats()
				require.Positive(t, st.Selected)
				require.Less(t, float64(st.Selected), 0.8*float64(st.Candidates)) // leastSelected of about 22
			})
		}
	}
}

// TestSelectionIsTheSameEverywhere is metamorphic: threads, chunks, steps, pages and how many
// pages are on flash do not change the logits under selection, to the last bit.
func TestSelectionIsTheSameEverywhere(t *testing.T) {
	for _, c := range []struct {
		name   string
		window int
	}{{"llama3", 0}, {"gemma3", 200}, {"lfm2", 0}} {
		for _, format := range kv.Formats() {
			for _, how := range []string{"0.2", "auto"} {
				if format != kv.K8V8 && (how == "auto" || c.name != "llama3") {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", c.name, format, how), func(t *testing.T) {
					selection, err := ParseSelection(how)
					require.NoError(t, err)
					dir := longFixture(t, c.name, 4096, c.window)
					whole := openFixture(t, dir, "config.json", Options{Threads: 1, KV: format, Select: selection})
					ids := longPrompt(whole.Spec.Vocab, selectTokens+20, 8)
					want := answerAll(t, whole, ids, rand.New(rand.NewPCG(1, 1)))
					rng := testutil.Random(t)
					o := coldOptions(t, rng, vfs.OS(), format, whole.KVBytesPerToken()*kv.BlockTokens)
					o.Select = selection
					t.Log(o.describe())
					m := openFixture(t, dir, "config.json", o)
					require.Equal(t, want, answerAll(t, m, ids, rng))
					st := m.KVStats()
					require.Positive(t, st.Written)
					require.Positive(t, st.Read)
				})
			}
		}
	}
}

// TestSelectionReadsWhatItTakes counts the bytes that one token reads from flash.
func TestSelectionReadsWhatItTakes(t *testing.T) {
	dir := longFixture(t, "llama3", 4096, 0)
	budget := tiering.New(0)
	const fraction = 0.1
	m := openFixture(t, dir, "config.json", Options{
		Threads: 2, KV: kv.K8V8, Budget: budget, KVHot: 1, KVSpill: kv.NewScratch(vfs.OS(), t.TempDir(), budget), Select: Selection{Fraction: fraction},
	})
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	ids := longPrompt(m.Spec.Vocab, 4000, 7)
	require.NoError(t, m.Extend(context.Background(), s, ids, &ExtendOptions{}))
	extendAll(t, m, s, ids[:1]) // drains reads that the stream had submitted for the long input
	before := m.KVStats()
	const tokens = 5
	for i := range tokens {
		extendAll(t, m, s, ids[i:i+1])
	}
	after := m.KVStats()
	cold := int64(after.ColdPages) * int64(after.PageBytes)
	page := int64(0) // bytes of a layer's page, as it is read
	for l := range m.Spec.Layers {
		page = max(page, int64(vfs.DirectSize(m.cache.PageBytes(l))+vfs.DirectAlign))
	}
	picked := int64(fraction*float64(after.ColdPages)) + alwaysFirst + alwaysLast
	require.LessOrEqual(t, after.Read-before.Read, tokens*picked*page*int64(len(m.Spec.Layers)))
	require.Positive(t, after.Read-before.Read)
	require.Less(t, picked*int64(after.PageBytes), cold/2)
}

// TestSelectingAllocatesNothing decodes with all pages in memory.
func TestSelectingAllocatesNothing(t *testing.T) {
	dir := longFixture(t, "llama3", 4096, 0)
	m := openFixture(t, dir, "config.json", Options{Threads: 2, KV: kv.K8V8, Select: Selection{Fraction: 0.2}})
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, m.Extend(context.Background(), s, longPrompt(m.Spec.Vocab, 1600, 1), &ExtendOptions{}))
	s.ids = append(make([]int32, 0, 2048), s.ids...)
	next, reader, ctx := []int32{1}, &ExtendOptions{Each: func(int, []float32) error { return nil }}, context.Background()
	require.Zero(t, testutil.AllocsPerRun(30, 0, func() { // one of the tokens completes a block
		if err := m.Extend(ctx, s, next, reader); err != nil {
			t.Fatal(err)
		}
	}))
	require.Positive(t, m.SelectionStats().Candidates)
}

// TestSelectionNeverHidesBrokenKeys makes one key of a long text non-finite: the logits of a
// token that selects pages must not be finite, as with exact attention.
func TestSelectionNeverHidesBrokenKeys(t *testing.T) {
	m := attentionModel(t, 1, 4, 2, 32, kv.F32)
	m.selection = Selection{Fraction: 0.1}
	require.NoError(t, m.newPassForTest())
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	ids := longPrompt(m.Spec.Vocab, 2000, 3)
	require.NoError(t, m.Extend(context.Background(), s, ids, &ExtendOptions{}))
	logits := extendAll(t, m, s, ids[:1])[0]
	require.False(t, math.IsNaN(float64(logits[0])))
	keys, _ := s.kv.Block(0, 1, 9)
	keys[5] = float32(math.NaN())
	s.summaries.Summarize(kv.NewSummarizer(32), 0, 1, 9, s.kv.HeadBlock(0, 1, 9))
	logits = extendAll(t, m, s, ids[:1])[0]
	require.True(t, math.IsNaN(float64(logits[0])))
}

// newPassForTest creates the pass again after the test changed the selection.
func (m *Model) newPassForTest() (err error) {
	chunk := m.pass.chunk
	m.pass.free()
	m.pass, err = newPass(m, chunk)
	return err
}

// TestMarkTakesTheBest compares markBest with a sort.
func TestMarkTakesTheBest(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	for range 300 {
		n := 1 + random.IntN(40)
		worth, ranks, order := make([]float32, n), make([]uint32, n), make([]int, n)
		for i := range worth {
			worth[i] = float32(random.IntN(8)) / 16 // many values are equal
			ranks[i], order[i] = rankOf(worth[i]), i
		}
		sort.SliceStable(order, func(i, j int) bool { return worth[order[i]] > worth[order[j]] })
		taken := make([]byte, n)
		var total float64
		for _, v := range worth {
			total += float64(v)
		}
		need := total * random.Float64()
		got := markBest(taken, ranks, worth, need)
		var sum float64
		least := 0
		for ; least < n && sum < need; least++ {
			sum += float64(worth[order[least]])
		}
		require.Equal(t, least, got, "%v: worth %v", worth, need)
		for i, at := range order {
			require.Equal(t, i < least, taken[at] != 0, "%v: %v", worth, need)
		}
	}
	taken := make([]byte, 3)
	require.Equal(t, 2, markBest(taken, []uint32{7, brokenRank, 9}, []float32{1, 1, 1}, 1))
	require.Equal(t, []byte{0, 1, 1}, taken)
}

func TestParseSelection(t *testing.T) {
	for name, want := range map[string]Selection{
		"": {}, "exact": {}, "auto": {Missing: autoMissing}, "0.1": {Fraction: 0.1}, "1": {Fraction: 1},
	} {
		got, err := ParseSelection(name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, name := range []string{"0", "-1", "1.5", "NaN", "all", "10%"} {
		_, err := ParseSelection(name)
		require.ErrorContains(t, err, name)
	}
}

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
	require.Zero(t, testutil.AllocsPerRun(40, 0, func() {
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
