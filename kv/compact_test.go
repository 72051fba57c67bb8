package kv

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// TestCompactNeedsTheFewestBytes closes and truncates sequences of many frames at random, some of which share pages.
// Afterwards the frames have no more slabs than the pages need, and every sequence holds its tokens.
func TestCompactNeedsTheFewestBytes(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 1))
		budget := tiering.New(0)
		shape := Shape{HeadDim: 8, KVHeads: []int{200, 0, 250}} // several slabs in a frame
		c, err := NewCache(shape, budget, Options{})
		require.NoError(t, err)
		salts := map[*Seq][]int{}
		for i := range 12 {
			s := c.NewSeq()
			n := 1 + rng.IntN(6*BlockTokens)
			require.NoError(t, add(s, n, i))
			salts[s] = same(n, i)
			if rng.IntN(3) == 0 {
				salts[s.Fork()] = same(n, i)
			}
		}
		for s := range salts {
			switch rng.IntN(3) {
			case 0:
				s.Close()
				delete(salts, s)
			case 1:
				n := rng.IntN(s.Len())
				s.Truncate(n)
				salts[s] = salts[s][:n]
			}
		}
		c.Compact()
		held, slabs := budget.Usage().By[tiering.KVHot], int64(c.Stats().HotPages)
		require.LessOrEqual(t, held, slabs*tiering.PageUp(int64(c.slabBytes)), "%d pages", slabs)
		require.LessOrEqual(t, c.Spillable(), held)
		for s, salts := range salts {
			check(t, s, salts)
			require.NoError(t, add(s, s.Len()+100, 99), "it can grow")
			s.Close()
		}
		require.NoError(t, c.Close())
		require.NoError(t, budget.Check())
	}
}

// TestCompactCopiesNoNewPages compacts a cache in the middle of a step by which its frame grew. The pages are in the
// first slabs of the step, so that none is copied to memory that nothing has touched.
func TestCompactCopiesNoNewPages(t *testing.T) {
	c, err := NewCache(Shape{HeadDim: 8, KVHeads: []int{20, 0, 25}}, tiering.New(0), Options{})
	require.NoError(t, err)
	s := c.NewSeq()
	require.NoError(t, add(s, 2*c.pageTokens, 1))
	require.Greater(t, len(c.free), len(s.hot), "the step has more slabs")
	slabs := slices.Clone(s.hot)
	c.Compact()
	require.True(t, slices.Equal(slabs, s.hot), "no page has moved")
	check(t, s, same(2*c.pageTokens, 1))
	s.Close()
	require.NoError(t, c.Close())
}

// TestCompactDuringASpill stops the writer: the pages that it reads stay in place.
func TestCompactDuringASpill(t *testing.T) {
	const pages = 8
	g := newGate()
	c := coldCache(t, g, pages)
	s, gone := c.NewSeq(), c.NewSeq()
	require.NoError(t, add(s, 4*BlockTokens, 1))
	g.set(true)
	require.NoError(t, add(gone, 4*BlockTokens, 2))
	<-g.waiting // a write of pages of s
	gone.Close()
	c.Compact()
	g.set(false)
	writtenAhead(t, c)
	require.NoError(t, add(s, 2*pages*BlockTokens, 1))
	check(t, s, same(2*pages*BlockTokens, 1))
	s.Close()
}

// TestYieldReturnsMemory takes memory from pages for another use. They move to flash, those of the sequence that grew
// last stay; a disk that fails costs nothing but the memory.
func TestYieldReturnsMemory(t *testing.T) {
	var fails atomic.Bool
	c := coldCache(t, vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
		if fails.Load() && op.Kind == vfs.OpWrite {
			return syscall.EIO
		}
		return nil
	}), 100)
	require.NoError(t, c.SetHot(0)) // only the budget limits the pages
	held := func() int64 { return c.budget.Usage().By[tiering.KVHot] }
	old, last := c.NewSeq(), c.NewSeq()
	require.NoError(t, add(old, 20*BlockTokens, 1))
	require.NoError(t, add(last, 5*BlockTokens, 2))
	c.Compact()
	before, wanted := held(), int64(8*c.slabBytes)
	fails.Store(true)
	require.ErrorIs(t, c.Yield(t.Context(), wanted), syscall.EIO)
	require.Equal(t, before, held())
	fails.Store(false)
	require.NoError(t, c.Yield(t.Context(), wanted))
	require.LessOrEqual(t, held(), before-wanted)
	require.Positive(t, old.ColdPages())
	require.Zero(t, last.ColdPages())
	check(t, last, same(5*BlockTokens, 2))
	require.ErrorIs(t, c.Yield(t.Context(), before), errNothingToSpill)
	require.Positive(t, last.ColdPages())
	for _, s := range []*Seq{old, last} {
		s.Close()
	}
}
