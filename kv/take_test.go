package kv

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/tiering"
)

// TestTakeReplacesRows lets a sequence and one that follows it store different rows behind the same ones, in the middle
// of a page and beyond it: the sequence takes those of the other, and the rows before stay.
func TestTakeReplacesRows(t *testing.T) {
	ctx := context.Background()
	for _, had := range []int{0, 10, 2 * BlockTokens, 2*BlockTokens + 5} {
		budget := tiering.New(0)
		c, err := NewCache(Shape{HeadDim: 3, KVHeads: []int{1}}, budget, Options{PageTokens: 2 * BlockTokens})
		require.NoError(t, err)
		s, f := c.NewSeq(), c.NewSeq()
		put := func(q *Seq, from, to int, value float32) {
			row := make([]float32, c.shape.KVHeads[0]*c.shape.HeadDim)
			for pos := from; pos < to; pos++ {
				for i := range row {
					row[i] = value + float32(pos)
				}
				q.Put(0, pos, row, row)
			}
		}
		require.NoError(t, s.Grow(ctx, had+100))
		put(s, 0, had, 0)
		s.Commit(had)
		f.Follow(s)
		require.NoError(t, f.Grow(ctx, had+100))
		put(s, had, had+100, 1000)
		put(f, had, had+100, 2000)
		s.Take(f, had+80)
		f.Truncate(0)
		s.Commit(had + 80)
		for pos := range had + 80 {
			k, v := s.Block(0, 0, pos/BlockTokens)
			want := float32(pos)
			if pos >= had {
				want += 2000
			}
			at := pos % BlockTokens * c.shape.HeadDim
			require.Equal(t, want, k[at], "position %d behind %d", pos, had)
			require.Equal(t, want, v[at])
		}
		s.Close()
		f.Close()
		c.Close()
		require.NoError(t, budget.Check())
	}
}
