package kv

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// savedStore opens a store for the segments of a cache.
func savedStore(t *testing.T, c *Cache, fsys vfs.FS) *segment.Store {
	t.Helper()
	dir, err := segment.OpenDir(fsys, "saved", 1<<30)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dir.Close()) })
	store, err := dir.Store(segment.NewKey(c.SegmentLayout(), "a model"), c.SegmentLayout())
	require.NoError(t, err)
	return store
}

// requireSaved restores what a store holds of tokens and compares it with tokens of one salt.
func requireSaved(t *testing.T, c *Cache, store *segment.Store, tokens []int32, salts []int) {
	t.Helper()
	parts, err := store.Lookup(tokens)
	require.NoError(t, err)
	back := c.NewSeq()
	defer back.Close()
	_, err = back.Restore(t.Context(), parts)
	require.NoError(t, err)
	require.NoError(t, segment.Close(parts))
	check(t, back, salts)
}

// stalls returns how often tokens have begun to wait for flash.
func stalls(c *Cache) int {
	st := c.Stats()
	return st.SpillStalls + st.SaveStalls
}

// awaitStall waits until a call waits for flash, behind a number of other waits. The call must not
// have ended.
func awaitStall(t *testing.T, c *Cache, before int, ended chan error) {
	t.Helper()
	awaitCall(t, ended, func() bool { return stalls(c) > before })
}

// awaitCall waits for a condition that a call meets before it ends.
func awaitCall(t *testing.T, ended chan error, met func() bool) {
	t.Helper()
	for !met() {
		select {
		case err := <-ended:
			require.FailNow(t, "the call did not wait", "%v", err)
		default:
			runtime.Gosched()
		}
	}
}

// TestSaveBehindKeepsItsPages starts a save whose writes wait. Meanwhile the caller changes its
// tokens, and the sequence is truncated and grows with other tokens: the save holds what it began
// with, and the sequence is not said to have these pages on flash.
func TestSaveBehindKeepsItsPages(t *testing.T) {
	g := newGate()
	c := coldCache(t, g, 20)
	store := savedStore(t, c, g)
	s := c.NewSeq()
	require.NoError(t, add(s, 5*BlockTokens+7, 1))
	tokens := make([]int32, 5*BlockTokens+7)
	g.set(true)
	save, err := s.PersistBehind(store, tokens, nil, SaveOptions{})
	require.NoError(t, err)
	<-g.waiting
	for i := range tokens {
		tokens[i] = 9
	}
	s.Truncate(3*BlockTokens - 10)
	require.NoError(t, add(s, 6*BlockTokens, 2))
	_, _, ended, err := save.Result()
	require.False(t, ended)
	require.NoError(t, err)
	g.set(false)
	save.Wait()
	chain, bytes, ended, err := save.Result()
	require.True(t, ended)
	require.NoError(t, err)
	require.Equal(t, 5, chain.Pages())
	require.Greater(t, bytes, int64(5*c.slabBytes))
	require.Empty(t, s.saved)
	check(t, s, append(same(3*BlockTokens-10, 1), same(3*BlockTokens+10, 2)...))
	s.Close()
	require.Zero(t, c.Stats().HotPages)
	requireSaved(t, c, store, make([]int32, 5*BlockTokens), same(5*BlockTokens, 1))
}

// TestTokenWaitsForASaveThatHoldsItsMemory fills the memory with pages that a save holds. The token
// that needs room waits for the save, which it then uses instead of writing the pages again. A
// cancelled token waits no longer.
func TestTokenWaitsForASaveThatHoldsItsMemory(t *testing.T) {
	const pages = 6
	g := newGate()
	c := coldCache(t, g, pages)
	store := savedStore(t, c, g)
	s := c.NewSeq()
	c.WriteOnDemand(true)
	require.NoError(t, add(s, pages*BlockTokens, 1))
	g.set(true)
	save, err := s.PersistBehind(store, make([]int32, pages*BlockTokens), nil, SaveOptions{})
	require.NoError(t, err)
	<-g.waiting
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Grow(ctx, s.Len()+1) }()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	before := stalls(c)
	go func() { ended <- s.Grow(t.Context(), s.Len()+1) }()
	awaitStall(t, c, before, ended)
	g.set(false)
	require.NoError(t, <-ended)
	save.Wait()
	st := c.Stats()
	require.Zero(t, st.Written, "the pages are not spilled too")
	require.Equal(t, 1, st.ColdPages)
	require.Equal(t, pages, s.Cold()[0].Segment().Pages(), "it uses the save")
	require.Positive(t, st.SaveStalls)
	require.Zero(t, st.SpillStalls)
	check(t, s, same(pages*BlockTokens, 1))
	s.Close()
}

// TestMemoryOfASaveIsGivenBackInTime closes a sequence's pages while a save holds them: another
// sequence that needs the memory waits for the save instead of failing. Without memory for a copy
// of the tokens, no save starts.
func TestMemoryOfASaveIsGivenBackInTime(t *testing.T) {
	g := newGate()
	budget := tiering.New(0)
	c, err := NewCache(Shape{HeadDim: 8, KVHeads: []int{1, 0, 2}}, budget, Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()); require.NoError(t, budget.Check()) }()
	store := savedStore(t, c, g)
	s, other := c.NewSeq(), c.NewSeq()
	require.NoError(t, add(s, BlockTokens, 1))
	all := len(c.free) // slabs that the first step of memory has room for besides
	require.NoError(t, add(s, all*BlockTokens, 1))
	tokens := make([]int32, all*BlockTokens)
	used := budget.Usage().Total
	budget.SetLimit(used)
	_, err = s.PersistBehind(store, tokens, nil, SaveOptions{})
	require.ErrorIs(t, err, tiering.ErrBudget)
	budget.SetLimit(used + (int64(4*len(tokens))+4095)/4096*4096)
	g.set(true)
	save, err := s.PersistBehind(store, tokens, nil, SaveOptions{})
	require.NoError(t, err)
	<-g.waiting
	s.Truncate(0)
	ended, before := make(chan error), stalls(c)
	go func() { ended <- add(other, 2*BlockTokens, 2) }()
	awaitStall(t, c, before, ended)
	g.set(false)
	require.NoError(t, <-ended)
	save.Wait()
	check(t, other, same(2*BlockTokens, 2))
	s.Close()
	other.Close()
}

// TestSavedPagesMaySpill stops a save of all pages in memory, on the caller's goroutine: another sequence gets
// their memory at once, by spilling them, and the save reads them back.
func TestSavedPagesMaySpill(t *testing.T) {
	const pages = 6
	g := newGate()
	c := coldCache(t, vfs.NewMem(), pages)
	store := savedStore(t, c, g)
	s, other := c.NewSeq(), c.NewSeq()
	require.NoError(t, add(s, pages*BlockTokens, 1))
	tokens := make([]int32, pages*BlockTokens)
	g.set(true)
	saved := make(chan error)
	go func() {
		_, err := s.Persist(store, tokens, nil, true)
		saved <- err
	}()
	<-g.waiting
	require.NoError(t, add(other, 3*BlockTokens, 2))
	st := c.Stats()
	require.Equal(t, pages, st.HotPages)
	require.Equal(t, 3, st.ColdPages, "the save's own reference does not count")
	g.set(false)
	require.NoError(t, <-saved)
	check(t, s, same(pages*BlockTokens, 1))
	check(t, other, same(3*BlockTokens, 2))
	s.Close()
	other.Close()
	require.Zero(t, c.Stats().HotPages)
	requireSaved(t, c, store, tokens, same(pages*BlockTokens, 1))
}

// TestErrorsOfASaveAreItsResult fails the k-th write of a save for all k: the result has the chain
// of what could be written, and the next save writes the rest.
func TestErrorsOfASaveAreItsResult(t *testing.T) {
	broken := errors.New("broken")
	for k, failed := 1, true; failed; k++ {
		var mu sync.Mutex
		left := k
		fsys := vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if op.Kind == vfs.OpWrite {
				if left--; left == 0 {
					return broken
				}
			}
			return nil
		})
		c := coldCache(t, vfs.NewMem(), 50)
		store := savedStore(t, c, fsys)
		s := c.NewSeq()
		const pages = segment.MaxPages + 2
		require.NoError(t, add(s, pages*BlockTokens, 1))
		tokens := make([]int32, pages*BlockTokens)
		save, err := s.PersistBehind(store, tokens, nil, SaveOptions{})
		require.NoError(t, err)
		save.Wait()
		chain, _, _, err := save.Result()
		if failed = err != nil; failed {
			require.ErrorIs(t, err, broken)
			require.Less(t, chain.Pages(), pages)
		}
		save, err = s.PersistBehind(store, tokens, chain, SaveOptions{})
		require.NoError(t, err)
		next, err := s.Persist(store, tokens, chain, false) // beside the save
		require.NoError(t, err)
		require.Equal(t, pages, next.Pages())
		save.Wait()
		requireSaved(t, c, store, tokens, same(pages*BlockTokens, 1))
		s.Close()
	}
}

// TestCloseStopsASave closes the cache while a save waits.
func TestCloseStopsASave(t *testing.T) {
	g := newGate()
	budget := tiering.New(0)
	c, err := NewCache(Shape{HeadDim: 8, KVHeads: []int{1, 0, 2}}, budget, Options{})
	require.NoError(t, err)
	store := savedStore(t, c, g)
	s := c.NewSeq()
	require.NoError(t, add(s, 4*BlockTokens, 1))
	g.set(true)
	save, err := s.PersistBehind(store, make([]int32, 4*BlockTokens), nil, SaveOptions{})
	require.NoError(t, err)
	<-g.waiting
	ended := make(chan error)
	go func() { ended <- c.Close() }()
	awaitCall(t, ended, func() bool {
		c.mu.Lock() // Close waits without it, because the save reads pages
		defer c.mu.Unlock()
		return c.closed
	})
	g.set(false)
	require.NoError(t, <-ended)
	_, _, done, _ := save.Result()
	require.True(t, done)
	require.NoError(t, budget.Check())
	_, err = s.PersistBehind(store, nil, nil, SaveOptions{})
	require.ErrorIs(t, err, ErrClosed)
}
