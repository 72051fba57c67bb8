package exec

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// ringless returns a model whose plan keeps all keys and values in memory and counts no ring to read them, and a
// sequence of the first n tokens, of which the last pages are in memory and the first on flash from before.
func ringless(t *testing.T, ids []int32, n int) (*Model, *Sequence) {
	t.Helper()
	fsys := modeltest.WriteTinyHF(t, modeltest.TinyConfig(t, modeltest.Fields{"max_position_embeddings": 2048}))
	budget := tiering.New(0)
	m := loadModel(t, fsys, "m", Options{Threads: 1, Chunk: 64, KV: kv.F32, Budget: budget, KVRing: 16 << 10, KVSpill: kv.NewScratch(vfs.NewMem(), "s", budget)})
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	extendAll(t, m, s, ids[:n/4])
	require.NoError(t, m.SetHot(1)) // all full pages move to flash
	require.Positive(t, s.kv.ColdPages())
	require.NoError(t, m.SetHot(0))
	extendAll(t, m, s, ids[n/4:n])
	m.kvReader.Release()
	return m, s
}

// TestPagesMakeRoomForTheRing reads pages on flash where the memory of other pages has used up the budget. They give
// back what they do not use; if they use all of it, some move to flash.
func TestPagesMakeRoomForTheRing(t *testing.T) {
	ids := longPrompt(modeltest.TinyVocab, 700, 1)
	for _, c := range []struct {
		name   string
		before func(m *Model)
		moves  bool
	}{
		{"unused", func(m *Model) {
			other, err := m.NewSequence(0)
			require.NoError(t, err)
			extendAll(t, m, other, ids[:300])
			other.Close()
			m.kvReader.Release()
		}, false},
		{"used", (*Model).TrimCache, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, s := ringless(t, ids, 600)
			want := allLogits(t, m, ids)
			c.before(m)
			cold := s.kv.ColdPages()
			m.budget.SetLimit(m.budget.Usage().Total)
			require.Equal(t, want[600:610], extendAll(t, m, s, ids[600:610]))
			require.Equal(t, c.moves, s.kv.ColdPages() > cold)
			require.Equal(t, want[610:], extendAll(t, m, s, ids[610:]), "they keep the ring")
		})
	}
}

// TestPagesOfAPassMakeRoomForTheRing is the same for forks that share a pass and their pages, which move to flash when
// the pass has found what they share.
func TestPagesOfAPassMakeRoomForTheRing(t *testing.T) {
	ids := longPrompt(modeltest.TinyVocab, 610, 1)
	m, s := ringless(t, ids, 600)
	want := allLogits(t, m, ids)
	f, err := s.Fork()
	require.NoError(t, err)
	defer f.Close()
	extendAll(t, m, f, ids[600:601])
	extendAll(t, m, s, ids[600:601])
	m.kvReader.Release()
	m.TrimCache()
	cold := s.kv.ColdPages()
	m.budget.SetLimit(m.budget.Usage().Total)
	release := holdModel(m)
	var running sync.WaitGroup
	got, errs := make([][]float32, 2), make([]error, 2)
	for i, q := range []*Sequence{s, f} {
		running.Go(func() {
			errs[i] = m.Extend(context.Background(), q, ids[601:602], &ExtendOptions{Each: func(_ int, logits []float32) error {
				got[i] = append([]float32(nil), logits...)
				return nil
			}})
		})
	}
	waitFor(m, 2)
	before := Passes(m).Passes
	release()
	running.Wait()
	require.NoError(t, errs[0])
	require.NoError(t, errs[1])
	require.Equal(t, before+1, Passes(m).Passes, "they share a pass")
	require.Greater(t, s.kv.ColdPages(), cold)
	require.Equal(t, want[601], got[0])
	require.Equal(t, want[601], got[1])
}
