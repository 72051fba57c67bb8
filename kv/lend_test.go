package kv

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// mark fills the lent pages with bytes that identify the slab.
func mark(c *Cache, from, to int) {
	for i := from; i < to; i++ {
		p := c.LentPage(i, 0)
		copy(p, bytes.Repeat([]byte{byte(i + 1)}, len(p)))
	}
}

// marked checks the bytes of the lent pages before one.
func marked(t *testing.T, c *Cache, to int) {
	t.Helper()
	for i := range to {
		p := c.LentPage(i, 0)
		require.Equal(t, bytes.Repeat([]byte{byte(i + 1)}, len(p)), p, "slab %d", i)
	}
}

// TestLentMemoryIsTakenBack lends what a sequence does not use, and grows the sequence through it.
// The limit holds, and what stays lent keeps its bytes.
func TestLentMemoryIsTakenBack(t *testing.T) {
	const pages = 6
	c := coldCache(t, vfs.NewMem(), pages)
	s := c.NewSeq()
	defer s.Close()
	require.NoError(t, add(s, 2*c.PageTokens(), 1))
	lent, stayed := c.Lend(100)
	require.Equal(t, []int{pages - 2, 0}, []int{lent, stayed})
	mark(c, 0, lent)
	lent, stayed = c.Lend(2)
	require.Equal(t, []int{pages - 2, pages - 2}, []int{lent, stayed}, "fewer that are wanted change nothing")
	for n := range pages + 3 {
		require.NoError(t, add(s, (3+n)*c.PageTokens(), 1))
		require.LessOrEqual(t, c.liveSlabs+len(c.lent), pages)
		lent, stayed = c.Lend(100)
		if n < pages-2 {
			require.Equal(t, pages-3-n, stayed)
		}
		require.LessOrEqual(t, c.liveSlabs+lent, pages)
		marked(t, c, stayed)
		mark(c, stayed, lent)
	}
	require.Positive(t, s.ColdPages())
	s.Truncate(0)
	lent, _ = c.Lend(pages)
	require.Equal(t, pages, lent)
	mark(c, 0, lent)
	require.NoError(t, c.SetHot(int64(2*c.slabBytes)))
	lent, stayed = c.Lend(pages)
	require.Equal(t, []int{2, 0}, []int{lent, stayed})
}

// TestSequencesTakeLentMemoryOfAFullBudget lends all that a budget has. A sequence gets it back.
func TestSequencesTakeLentMemoryOfAFullBudget(t *testing.T) {
	shape := Shape{HeadDim: 64, KVHeads: []int{1, 1}}
	slab := 2 * int64(shape.blockBytes(0))
	budget := tiering.New(4 * slab)
	c, err := NewCache(shape, budget, Options{Hot: 100 * slab, MayBeCold: true})
	require.NoError(t, err)
	defer c.Close()
	s := c.NewSeq()
	defer s.Close()
	lent, _ := c.Lend(100)
	require.Equal(t, 4, lent)
	for n := range 4 {
		require.NoError(t, s.Grow(t.Context(), (n+1)*BlockTokens))
		s.Commit((n + 1) * BlockTokens)
		lent, stayed := c.Lend(100)
		require.Equal(t, []int{3 - n, 3 - n}, []int{lent, stayed})
	}
	require.ErrorIs(t, s.Grow(t.Context(), 5*BlockTokens), tiering.ErrBudget)
	s.Truncate(BlockTokens)
	lent, _ = c.Lend(100)
	require.Equal(t, 3, lent)
}
