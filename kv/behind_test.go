package kv

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/store/vfs"
)

// gate lets a test stop the writes of a file system, and counts their bytes.
type gate struct {
	vfs.FS
	mu      sync.Mutex
	opened  sync.Cond
	closed  bool
	waiting chan struct{} // receives a value when a write begins to wait
	written int64
}

func newGate() *gate {
	g := &gate{waiting: make(chan struct{}, 100)}
	g.opened.L = &g.mu
	g.FS = vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind != vfs.OpWrite {
			return nil
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.written += int64(op.Len)
		for g.closed {
			g.waiting <- struct{}{}
			g.opened.Wait()
		}
		return nil
	})
	return g
}

func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
	g.opened.Broadcast()
}

// awaitWritten waits for the job of the writer and returns its error.
func awaitWritten(c *Cache) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	job := c.behind.job
	if job == nil {
		return nil
	}
	c.await(context.Background(), job.ended)
	c.takeResult(job)
	return job.err
}

// writtenAhead waits until the writer is idle. Its last job has not failed.
func writtenAhead(t *testing.T, c *Cache) {
	t.Helper()
	require.NoError(t, awaitWritten(c))
}

// same returns the salts of n tokens that were added with the same salt.
func same(n, salt int) []int {
	salts := make([]int, n)
	for i := range salts {
		salts[i] = salt
	}
	return salts
}

// TestTokenFindsItsRoomWritten stops all writes at the moment when a token needs room. The
// pages that make room are already written, so the token is stored nevertheless.
func TestTokenFindsItsRoomWritten(t *testing.T) {
	const pages = 8
	g := newGate()
	c := coldCache(t, g, pages)
	s := c.NewSeq()
	n := 0
	for c.Stats().ColdPages < 5*pages {
		require.NoError(t, add(s, n+1, 1))
		if n++; n%BlockTokens != 0 {
			continue
		}
		writtenAhead(t, c)
		g.set(true)
		require.NoError(t, add(s, n+1, 1), "needs room")
		g.set(false)
		n++
	}
	st := c.Stats()
	require.Zero(t, st.SpillStalls)
	require.Zero(t, st.SpillStalled)
	require.LessOrEqual(t, st.HotPages, pages)
	require.Equal(t, g.written, st.Written, "the counter is what the file system sees")
	once := int64(st.ColdPages+st.AheadPages) * int64(st.PageBytes)
	require.GreaterOrEqual(t, st.Written, once)
	require.Less(t, st.Written, once+int64(2*vfs.DirectAlign*(st.ColdPages+st.AheadPages)), "each page is written once, with padding")
	check(t, s, same(n, 1))
	s.Close()
}

// TestPagesLeaveMemoryOneByOne decodes and then prefills beyond the memory limit. A token that
// needs room moves one page to flash, so that the bytes that tokens read grow evenly, and memory
// stays full. A prompt moves the rest of a segment at once.
func TestPagesLeaveMemoryOneByOne(t *testing.T) {
	const pages = 8
	c := coldCache(t, vfs.NewMem(), pages)
	s := c.NewSeq()
	n, cold := 0, 0
	for ; s.ColdPages() < 3*pages; n++ {
		require.NoError(t, add(s, n+1, 1))
		require.LessOrEqual(t, s.ColdPages(), cold+1, "token %d", n)
		if cold = s.ColdPages(); cold > 0 {
			require.Equal(t, pages, c.Stats().HotPages)
		}
		ahead := c.Stats().AheadPages
		require.LessOrEqual(t, ahead, c.SegmentPages()+c.writeMargin())
		if ahead > c.writeMargin()+1 {
			require.False(t, c.Spills(s, n+2), "enough pages are written")
		}
	}
	check(t, s, same(n, 1))
	for _, part := range s.Cold()[:len(s.Cold())-1] {
		require.Equal(t, c.SegmentPages(), part.Pages, "all but the last segment are used completely")
	}
	for range 4 {
		before, version := s.ColdPages(), s.Version()
		n += 2 * BlockTokens
		require.NoError(t, add(s, n, 1))
		if s.Version() != version {
			require.Greater(t, s.ColdPages(), before)
			last := s.Cold()[len(s.Cold())-1]
			require.Equal(t, last.Segment().Pages(), last.Pages, "the whole segment left memory")
		}
	}
	check(t, s, same(n, 1))
	s.Close()
}

// TestTokenWaitsOnlyWithoutRoom closes the gate before the writer starts: tokens go on until
// memory is full. The token that needs room then waits; a cancelled one ends at once and
// loses nothing.
func TestTokenWaitsOnlyWithoutRoom(t *testing.T) {
	const pages = 8
	g := newGate()
	c := coldCache(t, g, pages)
	s := c.NewSeq()
	g.set(true)
	for n := 1; n <= pages*BlockTokens; n++ {
		require.NoError(t, add(s, n, 1))
	}
	<-g.waiting
	require.Zero(t, c.Stats().SpillStalls)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Grow(ctx, s.Len()+1) }()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	check(t, s, same(pages*BlockTokens, 1))
	before := stalls(c)
	go func() { ended <- s.Grow(t.Context(), s.Len()+1) }()
	awaitStall(t, c, before, ended)
	g.set(false)
	require.NoError(t, <-ended)
	require.Positive(t, c.Stats().SpillStalls)
	check(t, s, same(pages*BlockTokens, 1))
	s.Close()
}

// TestCloseStopsTheWriter closes a sequence, and then the cache, while a write is in flight.
func TestCloseStopsTheWriter(t *testing.T) {
	for _, truncate := range []bool{false, true} {
		g := newGate()
		c := coldCache(t, g, 5)
		s, other := c.NewSeq(), c.NewSeq()
		g.set(true)
		require.NoError(t, add(s, 3*BlockTokens, 1))
		require.NoError(t, s.Grow(t.Context(), 3*BlockTokens+1))
		<-g.waiting
		require.NoError(t, add(other, 7, 2))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if truncate {
				s.Truncate(0)
			}
			s.Close()
		}()
		g.set(false)
		<-ended
		require.Equal(t, 1, c.Stats().HotPages, "the pages of the write are free")
		require.NoError(t, c.Stats().Failed, "a stopped write has not failed")
		check(t, other, same(7, 2))
		other.Close()
	}
}

// TestErrorsOfTheWriterReachTheNextToken fails all writes: tokens go on, and the error is
// returned to the token that needs room and has none.
func TestErrorsOfTheWriterReachTheNextToken(t *testing.T) {
	broken := errors.New("broken")
	var mu sync.Mutex
	failing, failed := true, 0
	c := coldCache(t, vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind != vfs.OpWrite || !failing {
			return nil
		}
		failed++
		return broken
	}), 8)
	s := c.NewSeq()
	require.NoError(t, add(s, 8*BlockTokens-2, 1))
	require.NoError(t, add(s, 8*BlockTokens, 1))
	_ = awaitWritten(c) // it has its buffer; what comes of it does not matter
	c.budget.SetLimit(c.budget.Usage().Total)
	err := s.Grow(t.Context(), s.Len()+1)
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "kv: cannot spill 4 pages of 64 tokens to flash")
	require.ErrorContains(t, err, "kv/scratch-")
	require.ErrorIs(t, c.Stats().Failed, broken)
	mu.Lock()
	require.LessOrEqual(t, failed, 2, "one write behind, and one attempt of the token")
	failing = false
	mu.Unlock()
	require.NoError(t, add(s, s.Len()+1, 1))
	check(t, s, same(8*BlockTokens+1, 1))
	s.Close()
}

// TestWritesBehindOfSharedPages forks and persists sequences whose pages are written
// already: they are not written again.
func TestWritesBehindOfSharedPages(t *testing.T) {
	c := coldCache(t, vfs.NewMem(), 8)
	s := c.NewSeq()
	require.NoError(t, add(s, 7*BlockTokens, 1))
	require.NoError(t, add(s, 7*BlockTokens+1, 1))
	writtenAhead(t, c)
	require.Equal(t, 4, c.Stats().AheadPages)
	fork := s.Fork()
	require.Equal(t, 8, c.Stats().AheadPages)
	dir, err := segment.OpenDir(vfs.NewMem(), "saved", 1<<30)
	require.NoError(t, err)
	store, err := dir.Store(segment.NewKey(c.SegmentLayout(), "a model"), c.SegmentLayout())
	require.NoError(t, err)
	_, err = fork.Persist(store, make([]int32, 6*BlockTokens), nil, false)
	require.NoError(t, err)
	written := c.Stats().Written
	require.NoError(t, add(s, 9*BlockTokens, 1))
	require.Equal(t, written, c.Stats().Written)
	require.Equal(t, 2, s.ColdPages(), "as many as had to leave memory")
	require.Equal(t, 2, fork.ColdPages())
	require.Equal(t, 6, s.Cold()[0].Segment().Pages(), "the persisted segment is longer")
	check(t, s, same(9*BlockTokens, 1))
	check(t, fork, same(7*BlockTokens+1, 1))
	fork.Truncate(2 * BlockTokens)
	require.NoError(t, add(fork, 3*BlockTokens, 2))
	check(t, fork, append(same(2*BlockTokens, 1), same(BlockTokens, 2)...))
	fork.Close()
	s.Close()
	require.NoError(t, dir.Close())
}
