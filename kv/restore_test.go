package kv

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// TestRestoreWithinTheBudget restores pages with buffers for all readers, for some
// and for none. The pages are the same, and the budget is not exceeded.
func TestRestoreWithinTheBudget(t *testing.T) {
	const pages = 5
	shape := Shape{HeadDim: 64, KVHeads: []int{2, 0, 1}, Format: K8V8}
	cache := func(budget *tiering.Budget) *Cache {
		c, err := NewCache(shape, budget, Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()); require.NoError(t, budget.Check()) })
		return c
	}
	c := cache(tiering.New(0))
	s := c.NewSeq()
	defer s.Close()
	require.NoError(t, s.Grow(t.Context(), pages*BlockTokens))
	for pos := range pages * BlockTokens {
		fill(s, 0, pos)
		fill(s, 2, pos)
	}
	s.Commit(pages * BlockTokens)
	dir, err := segment.OpenDir(vfs.OS(), t.TempDir(), 1<<30)
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	store, err := dir.Store(segment.NewKey(c.SegmentLayout(), "a model"), c.SegmentLayout())
	require.NoError(t, err)
	tokens := make([]int32, pages*BlockTokens)
	_, err = s.Persist(store, tokens, nil, false)
	require.NoError(t, err)

	slabs := int64(pages * c.slabBytes)
	buffer := int64(pages*c.PageBytes(0)+4095) / 4096 * 4096
	for _, readers := range []int64{4, 2, 1, 0} {
		budget := tiering.New((slabs+4095)/4096*4096 + readers*buffer)
		small := cache(budget)
		parts, err := store.Lookup(tokens)
		require.NoError(t, err)
		back := small.NewSeq()
		_, err = back.Restore(context.Background(), parts)
		require.NoError(t, err)
		require.NoError(t, segment.Close(parts))
		require.Equal(t, pages*BlockTokens, back.Len())
		for layer, heads := range shape.KVHeads {
			for head := range heads {
				for i := range pages {
					require.Equal(t, s.HeadBlock(layer, head, i), back.HeadBlock(layer, head, i))
				}
			}
		}
		require.Equal(t, readers*buffer, budget.Usage().Peak[tiering.KVFrames])
		require.Zero(t, budget.Usage().By[tiering.KVFrames])
		back.Close()
	}
}

// TestDamagedSegmentKeepsTokens restores a damaged segment into a sequence that has some of its tokens, without
// memory for read buffers: the tokens stay as they were.
func TestDamagedSegmentKeepsTokens(t *testing.T) {
	const pages, held = 2, 40
	open := func(limit int64) *Cache {
		c, err := NewCache(Shape{HeadDim: 8, KVHeads: []int{1, 0, 2}}, tiering.New(limit), Options{})
		require.NoError(t, err)
		return c
	}
	fsys, c := vfs.NewMem(), open(0)
	store := savedStore(t, c, fsys)
	s := c.NewSeq()
	require.NoError(t, add(s, pages*BlockTokens, 1))
	tokens := make([]int32, pages*BlockTokens)
	_, err := s.Persist(store, tokens, nil, false)
	require.NoError(t, err)
	parts, err := store.Lookup(tokens)
	require.NoError(t, err)
	require.Len(t, parts, 1)
	path := parts[0].File.Path()
	_, off, _ := parts[0].File.LayerRun(0)
	require.NoError(t, segment.Close(parts))
	data, err := vfs.ReadFile(fsys, path, 1<<20)
	require.NoError(t, err)
	copy(data[off+8:], []byte{0xa5, 0x5a, 0xa5})
	f, err := fsys.Create(path)
	require.NoError(t, err)
	_, err = f.WriteAt(data, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	parts, err = store.Lookup(tokens)
	require.NoError(t, err)

	small := open(tiering.PageUp(int64(pages * c.slabBytes)))
	back := small.NewSeq()
	require.NoError(t, add(back, held, 1))
	_, err = back.Restore(t.Context(), parts)
	require.ErrorIs(t, err, ErrCorrupt)
	check(t, back, same(held, 1))
	require.NoError(t, segment.Close(parts))
}
