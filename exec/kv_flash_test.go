package exec

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// slowKernels is set if no SIMD kernels run. They are about ten times slower, so long tests are
// shortened.
var slowKernels = strings.HasPrefix(quant.Features(), "portable")

// longFixture returns a fixture whose config.json was changed to a context of n tokens and, in
// layers with a window, to windows of the given tokens.
func longFixture(t *testing.T, name string, n, window int) string {
	t.Helper()
	dir, tmp := testutil.Shared(t, "fixtures", name), t.TempDir()
	var fields map[string]any
	testutil.ReadJSON(t, filepath.Join(dir, "config.json"), &fields)
	fields["max_position_embeddings"] = n
	if fields["sliding_window"] != nil && window > 0 {
		fields["sliding_window"] = window
	}
	config, err := json.Marshal(fields)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(tmp, "config.json"), config, 0o600))
	weights, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(tmp, "model.safetensors"), weights, 0o600))
	return tmp
}

// coldOptions returns random options for a model that spills KV pages.
func coldOptions(t *testing.T, rng *rand.Rand, fsys vfs.FS, format kv.Format, rowBytes int64) Options {
	budget := tiering.New(0)
	o := Options{
		Threads: 1 + rng.IntN(3), Chunk: 1 + rng.IntN(100), KV: format, Budget: budget,
		KVPage:  kv.BlockTokens << rng.IntN(3),
		KVRing:  int64(1+rng.IntN(64)) << 12,
		KVSpill: kv.NewScratch(fsys, t.TempDir(), budget),
	}
	o.KVHot = hotLimit(rng, o.KVPage, rowBytes*int64(o.KVPage)/kv.BlockTokens)
	return o
}

// coldTokens is the number of tokens that the spill tests read.
const coldTokens = 1800

func hotLimit(rng *rand.Rand, pageTokens int, pageBytes int64) int64 {
	return int64(1+rng.IntN(max(1, coldTokens/8/pageTokens))) * pageBytes
}

func (o *Options) describe() string {
	return fmt.Sprintf("threads %d chunk %d page %d hot %d ring %d", o.Threads, o.Chunk, o.KVPage, o.KVHot, o.KVRing)
}

// checkCold reads ids in steps of random sizes, with forks and truncations in between, and
// compares all logits.
func checkCold(t *testing.T, rng *rand.Rand, m *Model, ids []int32, want [][]float32) {
	t.Helper()
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer func() { s.Close() }()
	forks := 0
	for s.Len() < len(ids) {
		at := s.Len()
		n := min(len(ids)-at, 1+rng.IntN(1<<rng.IntN(9)))
		got := extendAll(t, m, s, ids[at:at+n])
		for i := range got {
			require.Equal(t, want[at+i], got[i], "position %d", at+i)
		}
		switch rng.IntN(8) {
		case 0:
			if forks++; forks > 6 {
				break
			}
			f, err := s.Fork()
			require.NoError(t, err)
			if rng.IntN(2) == 0 { // continue with the fork
				s, f = f, s
			}
			if back := f.Len() - rng.IntN(f.Len()); back < len(want) && back > 0 {
				f.Truncate(back)
				back = f.Len()
				require.Equal(t, want[back:back+1], extendAll(t, m, f, ids[back:back+1]), "fork at %d", back)
			}
			f.Close()
		case 1:
			if forks++; forks <= 6 {
				s.Truncate(s.Len() - rng.IntN(s.Len()))
			}
		case 2:
			require.NoError(t, m.SetHot(hotLimit(rng, m.cache.PageTokens(), int64(m.cache.Stats().PageBytes))))
		}
	}
}

// TestColdKVGivesTheSameLogits is metamorphic: a context several times as large as the KV
// memory, with random pages, limits, chunks, steps, forks and truncations, gives the logits of
// an all-resident cache, to the last bit.
func TestColdKVGivesTheSameLogits(t *testing.T) {
	all := kv.Formats()
	for i, c := range []struct {
		name   string
		window int
	}{{"llama3", 0}, {"gemma3", 200}, {"gemma2", 1500}, {"lfm2", 0}} {
		formats := all
		if testutil.Effort(0, 1) == 0 { // each format with some of the families
			formats = []kv.Format{all[i%len(all)], all[(i+3)%len(all)]}
		}
		if slowKernels {
			formats = formats[:1]
		}
		for _, format := range formats {
			t.Run(c.name+"/"+format.String(), func(t *testing.T) {
				dir := longFixture(t, c.name, 4096, c.window)
				whole := openFixture(t, dir, "config.json", Options{Threads: 2, Chunk: 256, KV: format})
				ids := longPrompt(whole.Spec.Vocab, coldTokens, 7)
				want := allLogits(t, whole, ids)
				row := whole.KVBytesPerToken() * kv.BlockTokens
				rng := testutil.Random(t)
				for range testutil.Effort(1, 4) {
					o := coldOptions(t, rng, vfs.OS(), format, row)
					t.Log(o.describe())
					m := openFixture(t, dir, "config.json", o)
					checkCold(t, rng, m, ids, want)
					st := m.KVStats()
					require.Positive(t, st.Written)
					require.Positive(t, st.Read)
				}
			})
		}
	}
}

// TestColdDecodeAllocatesNothing decodes with most of the context on flash.
func TestColdDecodeAllocatesNothing(t *testing.T) {
	dir := longFixture(t, "llama3", 4096, 0)
	budget := tiering.New(0)
	m := openFixture(t, dir, "config.json", Options{
		Threads: 2, KV: kv.K8V8, Budget: budget,
		KVHot: 1, KVSpill: kv.NewScratch(vfs.OS(), t.TempDir(), budget),
	})
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, m.Extend(context.Background(), s, longPrompt(m.Spec.Vocab, 64*20+5, 1), &ExtendOptions{}))
	require.Greater(t, m.KVStats().ColdPages, 15)
	s.ids = append(make([]int32, 0, 4096), s.ids...)
	next := []int32{1}
	reader := &ExtendOptions{Each: func(_ int, logits []float32) error { next[0] = argmax(logits); return nil }}
	require.Zero(t, testutil.AllocsPerRun(20, 0, func() {
		if err := m.Extend(context.Background(), s, next, reader); err != nil {
			t.Fatal(err)
		}
	}))
}

// TestColdKVBesideStreamedWeights streams weights and KV at the same time, and changes both
// plans during a text.
func TestColdKVBesideStreamedWeights(t *testing.T) {
	for _, c := range []struct {
		name   string
		window int
	}{{"llama3", 0}, {"gemma3", 200}, {"lfm2", 0}, {"qwen2_moe", 0}} {
		t.Run(c.name, func(t *testing.T) {
			f := openPack(t, modeltest.ImportModel(t, vfs.OS(), longFixture(t, c.name, 4096, c.window)))
			whole := loadPart(t, f, Options{Threads: 2, Chunk: 256, KV: kv.K8V8})
			ids := longPrompt(whole.Spec.Vocab, 1000, 7)
			want := allLogits(t, whole, ids)
			rng := testutil.Random(t)
			budget, plan := tiering.New(0), partPlan(rng, whole.Spec)
			plan.Pinned[0] = 0 // some weights are streamed
			o := Options{
				Threads: 2, Chunk: 1 + rng.IntN(100), KV: kv.K8V8, Budget: budget, Plan: plan,
				KVHot: 1, KVRing: 1 << 14, KVSpill: kv.NewScratch(vfs.OS(), t.TempDir(), budget),
			}
			t.Logf("%s %+v", o.describe(), o.Plan)
			m, err := Load(context.Background(), f, o)
			require.NoError(t, err)
			s, err := m.NewSequence(0)
			require.NoError(t, err)
			joined := 0
			for s.Len() < len(ids) {
				at := s.Len()
				n := min(len(ids)-at, 1+rng.IntN(1<<rng.IntN(8)))
				require.Equal(t, want[at:at+n], extendAll(t, m, s, ids[at:at+n]), "position %d", at)
				if m.kvReader.Interleaved() {
					joined++
				}
				switch rng.IntN(12) {
				case 0:
					require.NoError(t, m.Replan(context.Background(), partPlan(rng, m.Spec)))
				case 1:
					s.Truncate(s.Len() - rng.IntN(min(200, s.Len())))
				}
			}
			require.Positive(t, joined, "one stream brings both")
			require.Positive(t, m.KVStats().Read)
			require.Positive(t, m.StreamStats().Bytes)
			s.Close()
			m.Close()
			require.NoError(t, budget.Check())
		})
	}
}

// TestRestartedReadsWasteLittle counts the bytes that are read again because a page that leaves memory
// starts the reads ahead again: once for each page of decoded tokens, and at most the bytes in the
// ring. The rings hold less than the KV on flash, which each token reads.
func TestRestartedReadsWasteLittle(t *testing.T) {
	dir := longFixture(t, "llama3", 4096, 0)
	for _, ring := range []int{1 << 14, 1 << 16} {
		budget := tiering.New(0)
		m := loadModel(t, vfs.OS(), dir, Options{
			Threads: 1, Chunk: 32, KV: kv.K8V8, Budget: budget, KVHot: 1, KVRing: int64(ring),
			KVSpill: kv.NewScratch(vfs.NewMem(), "kv", budget),
		})
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		require.NoError(t, m.Extend(context.Background(), s, longPrompt(m.Spec.Vocab, 20*kv.BlockTokens, 7), &ExtendOptions{}))
		reads := map[int][]int64{} // bytes of each token, by the pages on flash
		var all, restarts int64
		last := m.KVStats()
		for range 5 * kv.BlockTokens {
			require.NoError(t, m.Extend(context.Background(), s, []int32{5}, &ExtendOptions{}))
			now := m.KVStats()
			if now.ColdPages > last.ColdPages {
				restarts++
			}
			reads[now.ColdPages] = append(reads[now.ColdPages], now.Read-last.Read)
			all, last = all+now.Read-last.Read, now
		}
		again := all
		for _, tokens := range reads { // most tokens restart nothing
			slices.Sort(tokens)
			again -= tokens[len(tokens)/2] * int64(len(tokens))
		}
		t.Logf("ring of %d: %d restarts, %d bytes read, %d of them again: %+.2f %%", ring, restarts, all, again, 100*float64(again)/float64(all))
		require.GreaterOrEqual(t, restarts, int64(4))
		require.Less(t, float64(again), 0.05*float64(all))
		s.Close()
	}
}

// TestRingFollowsThePlan replans a model that reads keys and values from flash. Its ring then has the size
// that the plan counts, larger or smaller, and is freed if the plan counts none. Logits stay the same.
func TestRingFollowsThePlan(t *testing.T) {
	m := coldModel(t, vfs.NewMem())
	frames := func() int64 { return m.budget.Usage().By[tiering.KVFrames] }
	ids := longPrompt(m.Spec.Vocab, 340, 7)
	want := allLogits(t, m, ids)
	s := callersOf(t, m, 1, ids[:330], nil)[0].seq
	require.Positive(t, s.kv.ColdPages())
	step := func() { require.Equal(t, want[s.Len():s.Len()+1], extendAll(t, m, s, ids[s.Len():s.Len()+1])) }
	step()
	small := frames()
	plan := &tiering.Plan{KVRing: 8 << 20}
	require.True(t, plan.Resident())
	require.NoError(t, m.Replan(t.Context(), plan))
	step()
	require.GreaterOrEqual(t, frames(), int64(8<<20))
	plan.KVRing = 1 << 14
	require.NoError(t, m.Replan(t.Context(), plan))
	require.Less(t, frames(), small, "it is freed at once")
	step()
	require.Equal(t, small, frames())
	plan.KVRing = 0
	require.NoError(t, m.Replan(t.Context(), plan))
	require.Less(t, frames(), small)
	step()
	require.Equal(t, small, frames(), "for pages on flash from before")
}
