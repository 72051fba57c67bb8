package exec

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
)

// longPrompt returns ids that no fixture lists, long enough to span several attention blocks and
// every fixture's window.
func longPrompt(vocab, n int, seed uint64) []int32 {
	random := rand.New(rand.NewPCG(seed, 1))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(random.IntN(vocab))
	}
	return ids
}

// TestLogitsDoNotDependOnChunksOrThreads reads one text in a single call, token by token, in
// chunks of odd sizes and with other thread counts: logits must be equal to the last bit.
func TestLogitsDoNotDependOnChunksOrThreads(t *testing.T) {
	for _, dir := range modeltest.FixtureDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			const length = 150
			whole := openFixture(t, dir, "config.json", Options{Threads: 1, Chunk: length})
			ids := longPrompt(whole.Spec.Vocab, length, 7)
			want := allLogits(t, whole, ids)
			for _, o := range []Options{{Threads: 2, Chunk: length}, {Threads: 3, Chunk: 1}, {Threads: 1, Chunk: 7}, {Threads: 2, Chunk: 33}} {
				m := openFixture(t, dir, "config.json", o)
				require.Equal(t, want, allLogits(t, m, ids), "chunk %d, %d threads", o.Chunk, o.Threads)
			}
			require.Equal(t, want, inSteps(t, whole, ids), "one call per token")
		})
	}
}

// inSteps reads ids with calls of random sizes, as a conversation does.
func inSteps(t *testing.T, m *Model, ids []int32) (out [][]float32) {
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	s.Expect(len(ids))
	random := rand.New(rand.NewPCG(3, 4))
	for len(ids) > 0 {
		n := min(len(ids), 1+random.IntN(5))
		out = append(out, extendAll(t, m, s, ids[:n])...)
		ids = ids[n:]
	}
	return out
}

// TestTruncateThenReadAgain truncates a sequence and extends it again: the logits must equal
// those of a sequence that never held the removed tokens.
func TestTruncateThenReadAgain(t *testing.T) {
	for _, dir := range modeltest.FixtureDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			m := openFixture(t, dir, "config.json", Options{Threads: 2})
			ids := longPrompt(m.Spec.Vocab, 140, 9)
			other := append(append([]int32(nil), ids[:70]...), longPrompt(m.Spec.Vocab, 60, 10)...)
			want := allLogits(t, m, other)
			s, err := m.NewSequence(0)
			require.NoError(t, err)
			defer s.Close()
			extendAll(t, m, s, ids)
			kept := s.Truncate(70)
			got := extendAll(t, m, s, other[kept:])
			require.Equal(t, want[len(want)-1], got[len(got)-1])
		})
	}
}

// TestSharedSpansGiveTheSameLogits decodes one token after a context of several spans, with one
// thread, which walks the spans, and with many, which share them.
func TestSharedSpansGiveTheSameLogits(t *testing.T) {
	dir := wideContext(t)
	var want [][]float32
	for _, threads := range []int{1, 2, 5} {
		m := openFixture(t, dir, "config.json", Options{Threads: threads})
		ids := longPrompt(m.Spec.Vocab, 3*spanTokens+77, 5)
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		require.NoError(t, m.Extend(context.Background(), s, ids[:len(ids)-1], &ExtendOptions{}))
		got := extendAll(t, m, s, ids[len(ids)-1:])
		s.Close()
		if want == nil {
			want = got
		}
		require.Equal(t, want, got, "%d threads", threads)
	}
}

// TestCancelKeepsTheSequence cancels a pass between layers and then computes the same
// tokens again.
func TestCancelKeepsTheSequence(t *testing.T) {
	for _, dir := range modeltest.FixtureDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			m := openFixture(t, dir, "config.json", Options{Threads: 2})
			ids := longPrompt(m.Spec.Vocab, 40, 11)
			want := allLogits(t, m, ids)
			s, err := m.NewSequence(0)
			require.NoError(t, err)
			defer s.Close()
			extendAll(t, m, s, ids[:20])
			err = m.Extend(&cancelAfter{Context: context.Background(), calls: 1}, s, ids[20:], &ExtendOptions{})
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, 20, s.Len())
			require.Equal(t, want[20:], extendAll(t, m, s, ids[20:]))
		})
	}
}

// cancelAfter is a context that is cancelled after a number of calls of Err.
type cancelAfter struct {
	context.Context
	calls int
}

func (c *cancelAfter) Err() error {
	if c.calls--; c.calls < 0 {
		return context.Canceled
	}
	return nil
}

// TestDecodeAllocatesNothing decodes with a warm sequence.
func TestDecodeAllocatesNothing(t *testing.T) {
	for _, dir := range modeltest.FixtureDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			requireNoAllocs(t, openFixture(t, dir, "config.json", Options{Threads: 2}))
		})
	}
	for _, mix := range []string{"q4_0", "q4_k_m", "q8_0"} {
		t.Run("tied "+mix, func(t *testing.T) { // embedding lookups read tiles
			requireNoAllocs(t, loadModel(t, synthFS(t, "tiny", mix, 512), "m.gguf", Options{Threads: 2, KV: kv.K8V8}))
		})
	}
	for _, name := range []string{"q4_k_m", "q8_0", "q4_0"} {
		t.Run(name, func(t *testing.T) {
			path := testutil.Shared(t, "gguf", "tiny-llama-"+name+".gguf")
			requireNoAllocs(t, loadModel(t, vfs.OS(), path, Options{Threads: 2, KV: kv.K8V8}))
		})
	}
}

// requireNoAllocs decodes after a context of some blocks.
func requireNoAllocs(t *testing.T, m *Model) {
	t.Helper()
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, m.Extend(context.Background(), s, longPrompt(m.Spec.Vocab, 130, 1), &ExtendOptions{}))
	s.ids = append(make([]int32, 0, 512), s.ids...)
	next := []int32{1}
	reader := &ExtendOptions{Each: func(_ int, logits []float32) error { next[0] = argmax(logits); return nil }}
	ctx := context.Background()
	allocs := testutil.AllocsPerRun(20, 0, func() {
		if err := m.Extend(ctx, s, next, reader); err != nil {
			t.Fatal(err)
		}
	})
	require.Zero(t, allocs)
}
