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
