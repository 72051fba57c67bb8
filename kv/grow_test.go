package kv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// TestOthersGoOnWhileOneWaitsForAWrite stops the write that a sequence waits for. Another sequence
// grows within its memory, stores tokens, reads them, is forked and truncated meanwhile.
func TestOthersGoOnWhileOneWaitsForAWrite(t *testing.T) {
	const pages = 8
	g := newGate()
	c := coldCache(t, g, pages)
	s, other := c.NewSeq(), c.NewSeq()
	require.NoError(t, add(other, 3, 2))
	g.set(true)
	require.NoError(t, add(s, (pages-1)*BlockTokens, 1))
	ended := make(chan error, 1)
	go func() { ended <- s.Grow(t.Context(), s.Len()+1) }()
	<-g.waiting // the write of the pages for which Grow waits, or that it finds in flight
	others := make(chan error, 1)
	go func() {
		defer close(others)
		if err := add(other, 9, 2); err != nil {
			others <- err
			return
		}
		fork := other.Fork()
		other.Truncate(7)
		fork.Close()
		c.Trim()
		others <- add(other, BlockTokens, 2)
	}()
	awaitOthers(t, others, func() { g.set(false) })
	require.Empty(t, ended, "Grow waits for its write")
	check(t, other, same(BlockTokens, 2))
	g.set(false)
	require.NoError(t, <-ended)
	check(t, s, same((pages-1)*BlockTokens, 1))
	s.Close()
	other.Close()
}

// awaitOthers waits until other sequences have ended what they do while flash is held up. If they wait for
// flash, it releases flash and fails the test.
func awaitOthers(t *testing.T, others chan error, release func()) {
	t.Helper()
	for patient := testutil.Patience(); patient(); runtime.Gosched() {
		select {
		case err := <-others:
			require.NoError(t, err)
			return
		default:
		}
	}
	release()
	require.FailNow(t, "another sequence waited for flash")
}

// TestOthersGoOnWhileOneReads stops the read that brings a page back for a sequence. Another sequence grows
// meanwhile, beyond the memory limit. A cancelled read leaves the sequence as it was.
func TestOthersGoOnWhileOneReads(t *testing.T) {
	var held atomic.Bool
	reading, proceed := make(chan struct{}), make(chan struct{})
	c := coldCache(t, vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpRead && held.Load() {
			reading <- struct{}{}
			<-proceed
		}
		return nil
	}), 4)
	s, other := c.NewSeq(), c.NewSeq()
	for n := BlockTokens; n <= 9*BlockTokens; n += BlockTokens {
		require.NoError(t, add(s, n, 1))
	}
	s.Truncate(3*BlockTokens + 3)
	require.Equal(t, 4, s.ColdPages())
	for _, cancels := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		held.Store(true)
		ended := make(chan error, 1)
		go func() { ended <- s.Grow(ctx, s.Len()+1) }()
		<-reading
		held.Store(false)
		others := make(chan error, 1)
		go func() { others <- add(other, other.Len()+5*BlockTokens, 2) }()
		awaitOthers(t, others, func() { close(proceed) })
		require.Equal(t, 4, s.ColdPages(), "nothing is half attached")
		check(t, other, same(other.Len(), 2))
		if cancels {
			cancel()
		}
		proceed <- struct{}{}
		if err := <-ended; cancels {
			require.ErrorIs(t, err, context.Canceled)
		} else {
			require.NoError(t, err)
			require.Equal(t, 3, s.ColdPages())
		}
		cancel()
		check(t, s, same(3*BlockTokens+3, 1))
	}
	s.Close()
	other.Close()
}

// TestCloseWaitsForReads closes a cache while a sequence of it reads a page back: the memory stays until the read
// has ended, and Grow returns an error.
func TestCloseWaitsForReads(t *testing.T) {
	var held atomic.Bool
	reading, proceed := make(chan struct{}), make(chan struct{})
	budget := tiering.New(0)
	shape := Shape{HeadDim: 8, KVHeads: []int{1, 0, 2}}
	c, err := NewCache(shape, budget, Options{Hot: 2 * BlockTokens * shape.TokenBytes(), Spill: NewScratch(vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpRead && held.Load() {
			reading <- struct{}{}
			<-proceed
		}
		return nil
	}), "kv", budget)})
	require.NoError(t, err)
	s := c.NewSeq()
	for n := BlockTokens; n <= 5*BlockTokens; n += BlockTokens {
		require.NoError(t, add(s, n, 1))
	}
	s.Truncate(BlockTokens + 3)
	held.Store(true)
	grown, closed := make(chan error, 1), make(chan error, 1)
	go func() { grown <- s.Grow(t.Context(), s.Len()+1) }()
	<-reading
	held.Store(false)
	go func() { closed <- c.Close() }()
	testutil.Eventually(t, "the cache is closed to others", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.closed
	})
	require.Positive(t, budget.Usage().By[tiering.KVHot])
	require.Empty(t, closed)
	proceed <- struct{}{}
	require.ErrorIs(t, <-grown, ErrClosed)
	require.NoError(t, <-closed)
	require.NoError(t, budget.Check())
}

// TestSequencesGrowTogether grows sequences on goroutines of their own, all beyond the memory limit. Each page is
// written once.
func TestSequencesGrowTogether(t *testing.T) {
	const pages, each = 8, 12
	c := coldCache(t, vfs.NewMem(), pages)
	seqs := []*Seq{c.NewSeq(), c.NewSeq(), c.NewSeq()}
	errs := make([]error, len(seqs))
	var all sync.WaitGroup
	for i, s := range seqs {
		all.Go(func() {
			for n := 1; n <= each && errs[i] == nil; n++ {
				errs[i] = addBeside(t.Context(), s, n*BlockTokens, i)
			}
		})
	}
	all.Wait()
	require.Equal(t, make([]error, len(seqs)), errs)
	writtenAhead(t, c)
	st := c.Stats()
	require.LessOrEqual(t, st.HotPages, pages)
	require.Equal(t, len(seqs)*each, st.HotPages+st.ColdPages)
	once := int64(st.ColdPages+st.AheadPages) * int64(st.PageBytes)
	require.GreaterOrEqual(t, st.Written, once)
	require.Less(t, st.Written, once+int64(2*vfs.DirectAlign*(st.ColdPages+st.AheadPages)), "each page is written once, with padding")
	for i, s := range seqs {
		check(t, s, same(each*BlockTokens, i))
		s.Close()
	}
}

// addBeside is add while other sequences grow: it stores the tokens under the lock that guards the places of pages.
func addBeside(ctx context.Context, s *Seq, n, salt int) error {
	if err := s.Grow(ctx, n); err != nil {
		return err
	}
	s.cache.mu.Lock()
	store(s, n, salt)
	s.cache.mu.Unlock()
	s.Commit(n)
	return nil
}

// compareBeside is compare while other sequences grow.
func compareBeside(s *Seq, salts []int) error {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	return compare(s, salts)
}

// salted is a sequence and the salts of its tokens.
type salted struct {
	*Seq
	salts []int
}

// saltedPool hands sequences from one goroutine to another.
type saltedPool struct {
	mu   sync.Mutex
	seqs []salted
}

func (p *saltedPool) put(s salted) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seqs = append(p.seqs, s)
}

func (p *saltedPool) take(rng *rand.Rand) salted {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := rng.IntN(len(p.seqs))
	s := p.seqs[i]
	p.seqs = slices.Delete(p.seqs, i, i+1)
	return s
}

// TestSequencesOfManyGoroutines grows, cancels, truncates, forks, adopts, saves and closes sequences at random on
// several goroutines, which hand them to each other, while the memory limit changes and writes fail. After each
// step the sequence holds what its own calls stored. In the end no slab is in use, and no byte of the file.
func TestSequencesOfManyGoroutines(t *testing.T) {
	for seed := range uint64(testutil.Effort(8, 200)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { growAtRandom(t, seed) })
	}
}

func growAtRandom(t *testing.T, seed uint64) {
	const goroutines, steps = 4, 60
	broken := errors.New("broken")
	var writes atomic.Int64
	var fails atomic.Bool
	c := coldCache(t, vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && fails.Load() && writes.Add(1)%3 == 0 {
			return broken
		}
		return nil
	}), 6)
	dir, err := segment.OpenDir(vfs.NewMem(), "saved", 1<<30)
	require.NoError(t, err)
	saved, err := dir.Store(segment.NewKey(c.SegmentLayout(), "a model"), c.SegmentLayout())
	require.NoError(t, err)
	trunk := c.NewSeq()
	require.NoError(t, add(trunk, 5*BlockTokens, 1))
	pool := &saltedPool{}
	for range 2 * goroutines {
		pool.put(salted{c.NewSeq(), nil})
	}
	errs := make([]error, goroutines+1)
	var all, limits sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(g)))
			for step := 0; step < steps && errs[g] == nil; step++ {
				s := pool.take(rng)
				errs[g] = stepAtRandom(rng, &s, trunk, pool, saved, 100*g+step)
				pool.put(s)
			}
		})
	}
	stop := make(chan struct{})
	limits.Go(func() {
		rng := rand.New(rand.NewPCG(seed, goroutines))
		for {
			select {
			case <-stop:
				return
			default:
			}
			fails.Store(rng.IntN(4) == 0)
			if err := c.SetHot(int64(1+rng.IntN(8)) * int64(c.slabBytes)); err != nil && !errors.Is(err, broken) {
				errs[goroutines] = err
				return
			}
			c.Trim()
			_ = c.Stats()
			runtime.Gosched()
		}
	})
	all.Wait()
	close(stop)
	limits.Wait()
	require.Equal(t, make([]error, len(errs)), errs)
	c.FinishSaves(nil)
	check(t, trunk, same(5*BlockTokens, 1))
	trunk.Close()
	for _, s := range pool.seqs {
		check(t, s.Seq, s.salts)
		s.Close()
	}
	require.NoError(t, dir.Close())
	require.Zero(t, c.Stats().HotPages)
	require.Zero(t, c.users)
	scratch := c.spill.(*Scratch)
	require.Zero(t, scratch.end, "the whole file is free again")
	require.Empty(t, scratch.holes)
}

// stepAtRandom makes one call for a sequence, and compares it with its salts.
func stepAtRandom(rng *rand.Rand, s *salted, trunk *Seq, pool *saltedPool, saved *segment.Store, salt int) error {
	c := s.cache
	tokens := make([]int32, len(s.salts)) // tokens with equal salts are equal
	for pos, salt := range s.salts {
		tokens[pos] = int32(salt)
	}
	switch rng.IntN(12) {
	case 0:
		if _, err := s.Persist(saved, tokens, nil, false); err != nil {
			return err
		}
	case 1:
		save, err := s.PersistBehind(saved, tokens, nil, SaveOptions{})
		if err != nil {
			return err
		}
		if n := rng.IntN(len(s.salts) + 1); rng.IntN(2) == 0 {
			s.Truncate(n)
			s.salts = s.salts[:n:n]
		}
		save.Wait()
	case 2:
		pool.put(salted{s.Fork(), slices.Clone(s.salts)})
	case 3, 4:
		n := rng.IntN(len(s.salts) + 1)
		s.Truncate(n)
		s.salts = s.salts[:n:n]
	case 5:
		s.Close()
		*s = salted{c.NewSeq(), nil}
	case 6:
		pages := 1 + rng.IntN(5)
		if !s.Adopt(trunk, pages) {
			return errors.New("not adopted")
		}
		s.salts = same(pages*BlockTokens, 1)
	case 7:
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		defer cancel()
		if err := s.Grow(ctx, len(s.salts)+rng.IntN(300)); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	default:
		n := len(s.salts) + rng.IntN(200)
		if err := addBeside(context.Background(), s.Seq, n, salt); err != nil {
			return err
		}
		for len(s.salts) < n {
			s.salts = append(s.salts, salt)
		}
	}
	return compareBeside(s.Seq, s.salts)
}
