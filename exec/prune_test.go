package exec

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
)

// requireSomeLogits reads ids in calls of random sizes that want the logits of some tokens or of
// none. The logits equal those of a model that computes all, and only the wanted rows go through
// the whole last layer.
func requireSomeLogits(t *testing.T, rng *rand.Rand, m *Model, ids []int32, want [][]float32) {
	t.Helper()
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	s.Expect(len(ids))
	for s.Len() < len(ids) {
		at := s.Len()
		n := min(len(ids)-at, 1+rng.IntN(60))
		wanted := make([]bool, len(ids))
		if one := 1 + rng.IntN(12); rng.IntN(3) > 0 {
			for i := at; i < at+n; i++ {
				wanted[i] = rng.IntN(one) == 0
			}
		}
		first := at // of the last pass, before it is cut into chunks
		for end := at; s.state != nil && end < at+n; {
			first, end = end, markEnd(end, at+n, m.cache.PageTokens())
		}
		last := 0 // wanted rows of the last pass
		for i := first + (at+n-first-1)/m.chunk()*m.chunk(); i < at+n; i++ {
			if wanted[i] {
				last++
			}
		}
		require.NoError(t, m.Extend(t.Context(), s, ids[at:at+n], &ExtendOptions{
			Want: func(pos int) bool { return wanted[pos] },
			Each: func(pos int, logits []float32) error {
				require.True(t, wanted[pos])
				require.Equal(t, want[pos], logits, "position %d", pos)
				wanted[pos] = false
				return nil
			},
		}))
		require.NotContains(t, wanted, true)
		require.Equal(t, last, m.pass.n)
	}
}

// TestLogitsDoNotDependOnWhichAreWanted wants random logits of resident and of streamed models.
func TestLogitsDoNotDependOnWhichAreWanted(t *testing.T) {
	for _, dir := range modeltest.FixtureDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			f := openPack(t, modeltest.ImportModel(t, vfs.OS(), dir))
			whole := loadPart(t, f, Options{Threads: 2, Chunk: 64})
			ids := longPrompt(whole.Spec.Vocab, 150, 8)
			want := allLogits(t, whole, ids)
			for seed := range uint64(4) {
				rng := rand.New(rand.NewPCG(seed, 3))
				o := Options{Threads: 1 + rng.IntN(3), Chunk: 1 + rng.IntN(70)}
				if seed > 0 {
					o.Plan = partPlan(rng, whole.Spec)
				}
				m := loadPart(t, f, o)
				if m.experts != nil {
					m.experts.Trust = float64(rng.IntN(2))
				}
				requireSomeLogits(t, rng, m, ids, want)
			}
		})
	}
}

// TestColdLogitsDoNotDependOnWhichAreWanted wants random logits with most KV pages on flash.
func TestColdLogitsDoNotDependOnWhichAreWanted(t *testing.T) {
	for _, c := range []struct {
		name   string
		window int
	}{{"llama3", 0}, {"gemma3", 200}, {"lfm2", 0}} {
		t.Run(c.name, func(t *testing.T) {
			dir := longFixture(t, c.name, 4096, c.window)
			rng := rand.New(rand.NewPCG(1, 9))
			whole := openFixture(t, dir, "config.json", Options{Threads: 2, Chunk: 256, KV: kv.K8V8})
			ids := longPrompt(whole.Spec.Vocab, 1000, 7)
			want := allLogits(t, whole, ids)
			o := coldOptions(t, rng, vfs.OS(), kv.K8V8, whole.KVBytesPerToken()*kv.BlockTokens)
			m := openFixture(t, dir, "config.json", o)
			requireSomeLogits(t, rng, m, ids, want)
			require.Positive(t, m.KVStats().Written)
		})
	}
}

// TestPrunedRowsNeedNoExperts requires that the last layer's experts are not read for pruned
// rows.
func TestPrunedRowsNeedNoExperts(t *testing.T) {
	dir := expertDirs(t)[0]
	f := openPack(t, modeltest.ImportModel(t, vfs.OS(), dir))
	spec := packSpec(t, f)
	m := loadPart(t, f, Options{Threads: 2, Chunk: 64, Plan: expertPlan(spec, len(spec.Layers)*spec.Experts*3/4)})
	m.experts.Trust = 1
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, m.Extend(context.Background(), s, longPrompt(spec.Vocab, 64, 7), &ExtendOptions{}))
	e := m.experts
	e.Reads.Mu.Lock()
	defer e.Reads.Mu.Unlock()
	for i := range e.Reads.Slots {
		require.Less(t, int(e.Reads.Slots[i].ID), e.PerLayer*(len(spec.Layers)-1))
	}
}
