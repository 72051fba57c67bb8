package kv

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/tiering"
)

// fill stores values that identify the layer, the head, the position and the element.
func fill(s *Seq, layer, pos int) (k, v []float32) {
	heads, d := s.cache.shape.KVHeads[layer], s.cache.shape.HeadDim
	for i := range heads * d {
		k = append(k, float32(layer*1_000_000+pos*1000+i))
		v = append(v, -float32(layer*1_000_000+pos*1000+i)-1)
	}
	s.Put(layer, pos, k, v)
	return k, v
}

func TestPutThenBlockReturnsWhatWasStored(t *testing.T) {
	budget := tiering.New(0)
	c, err := NewCache(Shape{HeadDim: 3, KVHeads: []int{2, 0, 1}}, budget, Options{})
	require.NoError(t, err)
	s := c.NewSeq()
	const tokens = BlockTokens*2 + 5
	require.NoError(t, s.Grow(t.Context(), tokens))
	for pos := range tokens {
		for _, layer := range []int{0, 2} {
			fill(s, layer, pos)
		}
	}
	s.Commit(tokens)
	for pos := range tokens {
		for _, layer := range []int{0, 2} {
			for h := range c.shape.KVHeads[layer] {
				k, v := s.Block(layer, h, pos/BlockTokens)
				row := pos % BlockTokens
				want := float32(layer*1_000_000 + pos*1000 + h*3)
				require.Equal(t, want, k[row*3], "layer %d head %d pos %d", layer, h, pos)
				require.Equal(t, -want-1, v[row*3])
			}
		}
	}
	s.Close()
	c.Close()
	require.NoError(t, budget.Check())
}

func TestTruncatedPagesAreReused(t *testing.T) {
	budget := tiering.New(0)
	c, err := NewCache(Shape{HeadDim: 8, KVHeads: []int{1, 1}}, budget, Options{})
	require.NoError(t, err)
	defer c.Close()
	s := c.NewSeq()
	require.NoError(t, s.Grow(t.Context(), 10*BlockTokens))
	s.Commit(10 * BlockTokens)
	require.Equal(t, 10, c.liveSlabs)
	s.Truncate(BlockTokens + 1)
	require.Equal(t, 2, c.liveSlabs)
	require.Equal(t, BlockTokens+1, s.Len())
	used := budget.Usage()
	require.NoError(t, s.Grow(t.Context(), 10*BlockTokens))
	require.Equal(t, used, budget.Usage(), "released pages are reused")
	s.Close()
	require.Zero(t, c.liveSlabs)
}

func TestGrowFailsCleanlyWhenTheBudgetIsSpent(t *testing.T) {
	shape := Shape{HeadDim: 64, KVHeads: []int{1, 1}}
	budget := tiering.New(3 * int64(shape.blockBytes(0))) // one token needs a page in each of two layers
	c, err := NewCache(shape, budget, Options{})
	require.NoError(t, err)
	defer c.Close()
	s := c.NewSeq()
	require.NoError(t, s.Grow(t.Context(), 1))
	fill(s, 0, 0)
	fill(s, 1, 0)
	s.Commit(1)
	require.ErrorIs(t, s.Grow(t.Context(), BlockTokens+1), tiering.ErrBudget)
	k, _ := s.Block(1, 0, 0)
	require.Equal(t, float32(1_000_000), k[0], "stored tokens remain")
	require.ErrorIs(t, s.Grow(t.Context(), BlockTokens+1), tiering.ErrBudget, "a second attempt does not corrupt the page tables")
	s.Close()
	require.Zero(t, c.liveSlabs)
}

func TestShapeOutOfRangeIsRefused(t *testing.T) {
	_, err := NewCache(Shape{HeadDim: 1 << 20, KVHeads: []int{1 << 20}}, tiering.New(0), Options{})
	require.Error(t, err)
}

// TestTrimReleasesUnusedMemory checks that the memory of a closed sequence returns to
// the system and that of other sequences remains.
func TestTrimReleasesUnusedMemory(t *testing.T) {
	budget := tiering.New(0)
	c, err := NewCache(Shape{HeadDim: 64, KVHeads: []int{2, 8}, Format: K8V8}, budget, Options{})
	require.NoError(t, err)
	held := func() int64 { return budget.Usage().By[tiering.KVHot] }
	keep := c.NewSeq()
	require.NoError(t, keep.Grow(t.Context(), 100))
	one := held()
	other := c.NewSeq()
	require.NoError(t, other.Grow(t.Context(), 20_000))
	require.Greater(t, held(), 2*one)
	c.Trim()
	require.Greater(t, held(), 2*one, "the memory is in use")
	other.Close()
	c.Trim()
	require.LessOrEqual(t, held(), 2*one)
	require.NoError(t, keep.Grow(t.Context(), 20_000), "memory can be allocated again")
	keep.Close()
	c.Trim()
	require.Zero(t, held())
	c.Close()
	require.NoError(t, budget.Check())
}
