package kv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/crc"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// coldCache returns a cache with a limit in pages that spills to a file of fsys. It
// checks the budget at the end of the test.
func coldCache(t *testing.T, fsys vfs.FS, pages int) *Cache {
	budget := tiering.New(0)
	shape := Shape{HeadDim: 8, KVHeads: []int{1, 0, 2}}
	c, err := NewCache(shape, budget, Options{Hot: int64(pages) * BlockTokens * shape.TokenBytes(), Spill: NewScratch(fsys, "kv", budget)})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Zero(t, c.Stats().HotPages)
		require.NoError(t, c.Close())
		require.NoError(t, budget.Check())
	})
	return c
}

// add stores tokens up to length n. Their contents depend on salt.
func add(s *Seq, n int, salt int) error {
	if err := s.Grow(context.Background(), n); err != nil {
		return err
	}
	store(s, n, salt)
	s.Commit(n)
	return nil
}

// store stores tokens up to length n, for which there is room.
func store(s *Seq, n, salt int) {
	for pos := s.len; pos < n; pos++ {
		for _, l := range []int{0, 2} {
			k := make([]float32, s.cache.shape.KVHeads[l]*8)
			for i := range k {
				k[i] = value(l, pos, i, salt)
			}
			s.Put(l, pos, k, k)
		}
	}
}

func value(layer, pos, i, salt int) float32 { return float32(salt*1e6 + layer*1e5 + pos*16 + i) }

// check compares all tokens of a sequence; salts has the salt of each token.
func check(t *testing.T, s *Seq, salts []int) {
	t.Helper()
	require.NoError(t, compare(s, salts))
}

// compare is check with an error.
func compare(s *Seq, salts []int) error {
	if s.Len() != len(salts) {
		return fmt.Errorf("%d tokens instead of %d", s.Len(), len(salts))
	}
	page := 0
	for _, part := range s.Cold() {
		for _, l := range []int{0, 2} {
			from, off, size := part.Segment().LayerRun(l)
			data := make([]byte, size)
			if _, err := from.ReadAt(data, off); err != nil || off%vfs.DirectAlign != 0 {
				return fmt.Errorf("reading %d bytes at %d: %w", size, off, err)
			}
			n := s.cache.PageBytes(l)
			for i := range part.Pages {
				if err := part.Segment().Verify(l, i, crc.Update(0, data[i*n:(i+1)*n])); err != nil {
					return err
				}
				if err := comparePage(s, salts, l, page+i, data[i*n:(i+1)*n]); err != nil {
					return err
				}
			}
		}
		page += part.Pages
	}
	if page != s.ColdPages() {
		return fmt.Errorf("%d pages on flash instead of %d", page, s.ColdPages())
	}
	for i := page; i*BlockTokens < len(salts); i++ {
		for _, l := range []int{0, 2} {
			if err := comparePage(s, salts, l, i, s.cache.page(s.hot[i-page], l)); err != nil {
				return err
			}
		}
	}
	return nil
}

// comparePage compares the tokens of one page of a layer.
func comparePage(s *Seq, salts []int, layer, page int, data []byte) error {
	shape := &s.cache.shape
	for h := range shape.KVHeads[layer] {
		k, v := shape.Format.Block32(shape.HeadBlock(data, layer, h, 0), shape.Dim(layer))
		for row := range min(BlockTokens, len(salts)-page*BlockTokens) {
			pos := page*BlockTokens + row
			if k[row*8+3] != value(layer, pos, h*8+3, salts[pos]) || v[row*8+7] != value(layer, pos, h*8+7, salts[pos]) {
				return fmt.Errorf("layer %d position %d holds something else", layer, pos)
			}
		}
	}
	return nil
}

// TestForkAndTruncatePreserveEverySequence grows, forks, truncates and persists
// sequences at random with a few pages of memory, and checks the contents of all of
// them after each step.
func TestForkAndTruncatePreserveEverySequence(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			fsys := vfs.FS(vfs.NewMem())
			if seed == 0 {
				fsys = vfs.OS()
			}
			c := coldCache(t, fsys, 1+rng.IntN(8))
			c.spill.(*Scratch).dir = t.TempDir()
			dir, err := segment.OpenDir(vfs.NewMem(), "saved", 1<<30)
			require.NoError(t, err)
			store, err := dir.Store(segment.NewKey(c.SegmentLayout(), "a model"), c.SegmentLayout())
			require.NoError(t, err)
			seqs, salts := []*Seq{c.NewSeq()}, [][]int{nil}
			var saving *Save
			for step := range 60 {
				i := rng.IntN(len(seqs))
				s := seqs[i]
				switch rng.IntN(7) {
				case 0:
					tokens := make([]int32, len(salts[i])) // tokens with equal salts are equal
					for pos, salt := range salts[i] {
						tokens[pos] = int32(salt)
					}
					if rng.IntN(2) == 0 {
						_, err := s.Persist(store, tokens, nil, false)
						require.NoError(t, err)
						break
					}
					saving, err = s.PersistBehind(store, tokens, nil, SaveOptions{})
					require.NoError(t, err)
				case 1:
					if len(seqs) < 5 {
						seqs, salts = append(seqs, s.Fork()), append(salts, append([]int(nil), salts[i]...))
					}
				case 2:
					n := rng.IntN(s.Len() + 1)
					s.Truncate(n)
					salts[i] = salts[i][:n:n]
				case 3:
					if len(seqs) > 1 {
						c.FinishSaves(nil)
						s.Close()
						seqs = append(seqs[:i], seqs[i+1:]...)
						salts = append(salts[:i], salts[i+1:]...)
					}
				default:
					n := s.Len() + rng.IntN(200)
					require.NoError(t, add(s, n, step))
					for len(salts[i]) < n {
						salts[i] = append(salts[i], step)
					}
				}
				for i, s := range seqs {
					check(t, s, salts[i])
				}
			}
			if saving != nil {
				saving.Wait()
				_, _, ended, err := saving.Result()
				require.True(t, ended)
				require.NoError(t, err)
			}
			for _, s := range seqs {
				s.Close()
			}
			for _, f := range seqs {
				require.Empty(t, f.saved)
			}
			require.NoError(t, dir.Close())
			s := c.spill.(*Scratch)
			require.Zero(t, s.end, "the whole file is free again")
			require.Empty(t, s.holes)
		})
	}
}

// TestDiskFullWhileSpilling fails write k, for every k. Pages stay in memory as long
// as the budget allows, no token is lost, and the next attempt succeeds.
func TestDiskFullWhileSpilling(t *testing.T) {
	full := errors.New("no space left on device")
	for k := 0; ; k++ {
		count, failed := 0, vfs.OpKind("")
		c := coldCache(t, vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
			switch op.Kind {
			case vfs.OpMkdir, vfs.OpCreate, vfs.OpWrite, vfs.OpAllocate:
				if count++; count-1 == k {
					failed = op.Kind
					return full
				}
			}
			return nil
		}), 2)
		s := c.NewSeq()
		for n := 30; n < 1000; n += 30 {
			require.NoError(t, add(s, n, 1))
		}
		salts := make([]int, s.Len())
		for i := range salts {
			salts[i] = 1
		}
		check(t, s, salts)
		require.LessOrEqual(t, c.Stats().HotPages, 3, "write %d: the next attempt made room", k)
		s.Close()
		switch failed {
		case "":
			require.Greater(t, k, 10)
			return
		case vfs.OpAllocate:
			require.NoError(t, c.Stats().Failed, "a region for a single segment was reserved instead")
		default:
			require.ErrorIs(t, c.Stats().Failed, full)
		}
	}
}

// TestSegmentsOfASequenceAreContiguous checks that the pages of a layer on flash form
// one range, although two sequences spilled one page at a time in turns. New pages
// overwrite the space of truncated ones.
func TestSegmentsOfASequenceAreContiguous(t *testing.T) {
	c := coldCache(t, vfs.NewMem(), 2)
	a, b := c.NewSeq(), c.NewSeq()
	for n := BlockTokens; n < 20*BlockTokens; n += BlockTokens {
		require.NoError(t, add(a, n, 1))
		require.NoError(t, add(b, n, 2))
	}
	a.Truncate(10*BlockTokens + 3)
	for n := 11 * BlockTokens; n < 20*BlockTokens; n += BlockTokens {
		require.NoError(t, add(a, n, 3))
	}
	end := c.spill.(*Scratch).end
	require.Less(t, end, 3*int64(regionRun)*2, "a region for each of two layers with KV")
	for _, s := range []*Seq{a, b} {
		require.Greater(t, len(s.Cold()), 10)
		for _, layer := range []int{0, 2} {
			var next int64
			for i, part := range s.Cold() {
				_, off, size := part.Segment().LayerRun(layer)
				if i > 0 {
					require.Equal(t, next, off)
				}
				next = off + vfs.DirectSize(size)
			}
		}
		s.Close()
	}
}

// TestGrowStopsWhenContextEnds checks that Grow stops after the current read when it
// brings a page back, and before the next page when it spills. No token is lost.
func TestGrowStopsWhenContextEnds(t *testing.T) {
	var cancel context.CancelFunc
	reads := 0
	c := coldCache(t, vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpRead && cancel != nil {
			reads++
			cancel()
		}
		return nil
	}), 2)
	s := c.NewSeq()
	defer s.Close()
	for n := BlockTokens; n < 6*BlockTokens; n += BlockTokens {
		require.NoError(t, add(s, n, 1))
	}
	s.Truncate(BlockTokens + 3)
	require.Equal(t, 2, s.ColdPages())
	ctx, end := context.WithCancel(t.Context())
	cancel = end
	require.ErrorIs(t, s.Grow(ctx, BlockTokens+4), context.Canceled)
	require.Equal(t, 1, reads, "the second layer is not read")
	cancel = nil
	require.ErrorIs(t, s.Grow(ctx, 3*BlockTokens), context.Canceled)
	salts := make([]int, BlockTokens+3)
	for i := range salts {
		salts[i] = 1
	}
	check(t, s, salts)
	require.NoError(t, add(s, 4*BlockTokens, 1))
}

// TestDiskAndMemoryFull checks that the sequence keeps its tokens if neither the disk
// nor the budget has room.
func TestDiskAndMemoryFull(t *testing.T) {
	full := errors.New("no space left on device")
	c := coldCache(t, vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpAllocate {
			return full
		}
		return nil
	}), 2)
	s := c.NewSeq()
	require.NoError(t, add(s, 2*BlockTokens, 1))
	c.budget.SetLimit(c.budget.Usage().Total + scratchBuffer)
	err := add(s, 3*BlockTokens, 1)
	require.ErrorIs(t, err, tiering.ErrBudget)
	require.ErrorIs(t, err, full)
	salts := make([]int, 2*BlockTokens)
	for i := range salts {
		salts[i] = 1
	}
	check(t, s, salts)
	s.Close()
}

// TestSpillingNeedsLittleMemory fills the budget up to less than a whole write buffer before the first page moves to flash. The
// buffer is as large as there is room, and becomes larger when there is more.
func TestSpillingNeedsLittleMemory(t *testing.T) {
	c := coldCache(t, vfs.NewMem(), 4)
	s := c.NewSeq()
	require.NoError(t, add(s, 2*BlockTokens, 1))
	frames := func() int64 { return c.budget.Usage().By[tiering.KVFrames] }
	least := tiering.PageUp(vfs.DirectAlign)
	c.budget.SetLimit(c.budget.Usage().Total + least)
	grow := func(pages int) {
		for range pages {
			require.NoError(t, add(s, s.Len()+BlockTokens, 1))
		}
	}
	grow(6)
	require.Positive(t, s.ColdPages())
	require.Equal(t, least, frames())
	c.budget.SetLimit(0)
	grow(8)
	require.EqualValues(t, scratchBuffer, frames())
	salts := make([]int, s.Len())
	for i := range salts {
		salts[i] = 1
	}
	check(t, s, salts)
	s.Close()
}

// TestAttach checks that a sequence with attached segments has their tokens and that
// each segment is closed once.
func TestAttach(t *testing.T) {
	c := coldCache(t, vfs.NewMem(), 1)
	s := c.NewSeq()
	for n := range 5 {
		require.NoError(t, add(s, (n+1)*BlockTokens, 0))
	}
	require.Greater(t, s.ColdPages(), 2)
	other := c.NewSeq()
	closed := 0
	for _, part := range s.Cold() {
		other.attach(countedSegment{part.Segment(), &closed}, part.Pages)
	}
	parts := len(s.Cold())
	check(t, other, make([]int, other.Len()))
	third := other.Fork()
	require.NoError(t, add(other, other.Len()+3, 0))
	check(t, other, make([]int, other.Len()))
	other.Close()
	require.Zero(t, closed)
	third.Close()
	require.Equal(t, parts, closed)
	s.Close()
}

type countedSegment struct {
	Segment
	closed *int
}

func (c countedSegment) Close() error { *c.closed++; return nil }

// TestDamagedSpillIsFound changes a byte of a spilled page: Damaged names the first page of its segment, and no
// persisted segment. The tokens before that page are intact. A context that has ended finds nothing.
func TestDamagedSpillIsFound(t *testing.T) {
	c := coldCache(t, vfs.NewMem(), 4)
	s := c.NewSeq()
	for n := BlockTokens; n <= 12*BlockTokens; n += BlockTokens {
		require.NoError(t, add(s, n, 1))
	}
	_, _, err := s.Damaged(t.Context())
	require.NoError(t, err)
	span := s.Cold()[2]
	damaged := span.segment.Segment.(*scratchSegment)
	_, err = damaged.scratch.file.WriteAt([]byte{0xa5, 0x5a}, damaged.layers[2].off+40)
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = s.Damaged(ended)
	require.NoError(t, err)
	f, page, err := s.Damaged(t.Context())
	require.ErrorIs(t, err, ErrCorrupt)
	require.Nil(t, f)
	require.Equal(t, s.Cold()[0].Pages+s.Cold()[1].Pages, page)
	s.Truncate(page * BlockTokens)
	check(t, s, same(page*BlockTokens, 1))
	_, _, err = s.Damaged(t.Context())
	require.NoError(t, err)
	s.Close()
}

// TestRefusedSpaceIsGivenBack refuses to allocate space for a spill, as a file system may that keeps the blocks it
// had already: the file is cut to the pages that it holds.
func TestRefusedSpaceIsGivenBack(t *testing.T) {
	full, refuses := errors.New("no space left on device"), false
	var ops []vfs.OpKind
	fsys := vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
		if refuses {
			if ops = append(ops, op.Kind); op.Kind == vfs.OpAllocate {
				return full
			}
		}
		return nil
	})
	s := NewScratch(fsys, "kv", tiering.New(0))
	defer func() { require.NoError(t, s.Close()) }()
	page := func(int, int) []byte { return make([]byte, 5000) }
	now := (*prefetch.Scheduler)(nil).WriteNow
	_, err := s.Spill(nil, 1, 2, page, now)
	require.NoError(t, err)
	refuses = true
	_, err = s.Spill(nil, 1, 2, page, now)
	require.ErrorIs(t, err, full)
	require.Equal(t, []vfs.OpKind{vfs.OpAllocate, vfs.OpTruncate, vfs.OpAllocate, vfs.OpTruncate}, ops)
}
