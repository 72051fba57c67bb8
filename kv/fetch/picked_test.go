package fetch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
)

// take picks pages of a layer and sequence in as many rounds as they need, verifies that each page
// has its own bytes and that others have none, and returns the number of rounds and pages read.
func (x *fixture) take(layer int, s *kv.Seq, picks []int) (rounds, read int, err error) {
	if err := x.picked.Start(); err != nil {
		return 0, 0, err
	}
	all, begun := onFlash(s), 0
	x.picked.Begin(layer, len(all))
	finish := func(end int) error {
		pages, fresh, err := x.picked.Fetch(context.Background(), end)
		if err != nil {
			return err
		}
		require.Len(x.t, pages, end-begun)
		for i := range fresh {
			if err := verify(fresh[i], layer); err != nil {
				return err
			}
		}
		for i := range pages {
			if wanted := contains(picks, begun+i); !wanted {
				require.Nil(x.t, pages[i].Data)
				continue
			}
			require.Equal(x.t, all[begun+i].segment, pages[i].segment)
			require.NoError(x.t, verify(pages[i], layer), "page %d, kept or read", begun+i)
		}
		rounds, read, begun = rounds+1, read+len(fresh), end
		x.picked.Keep()
		return nil
	}
	for _, i := range picks {
		if !x.picked.Pick(i, all[i].segment, all[i].at) {
			if err := finish(i); err != nil {
				return rounds, read, err
			}
			require.True(x.t, x.picked.Pick(i, all[i].segment, all[i].at), "an empty round has memory for a page")
		}
	}
	return rounds, read, finish(len(all))
}

func contains(list []int, v int) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// randomPicks returns some of n pages in ascending order.
func randomPicks(rng *rand.Rand, n int) (picks []int) {
	density := rng.Float64()
	for i := range n {
		if rng.Float64() < density {
			picks = append(picks, i)
		}
	}
	return picks
}

// TestPickedPagesHaveTheirBytes picks pages of several sequences, two of which share pages, at
// random with rings of all sizes. Between picks, exact passes use the ring, and the memory that the
// cache lends grows and shrinks.
func TestPickedPagesHaveTheirBytes(t *testing.T) {
	for _, ring := range []int64{1, 1 << 14, 1 << 16, 1 << 20} {
		t.Run(fmt.Sprint(ring), func(t *testing.T) {
			x := newFixture(t, vfs.NewMem(), ring, make([]int, 4), 30, 9)
			x.seqs = append(x.seqs, x.seqs[0].Fork())
			rng := rand.New(rand.NewPCG(uint64(ring), 1))
			for range 300 {
				switch rng.IntN(20) {
				case 0:
					x.readAll()
				case 1:
					require.NoError(t, x.cache.SetHot(int64(rng.IntN(40)*x.cache.Stats().PageBytes)))
				case 2: // grows, which may take back memory that is lent
					s := x.seqs[rng.IntN(len(x.seqs))]
					require.NoError(t, s.Grow(context.Background(), s.Len()+1+rng.IntN(3*kv.BlockTokens)))
				case 3:
					s := x.seqs[rng.IntN(len(x.seqs))]
					s.Truncate(s.Len())
				}
				require.NoError(t, x.reader.Begin(selecting{x.seqs}))
				s := x.seqs[rng.IntN(len(x.seqs))]
				layer := []int{0, 2, 3}[rng.IntN(3)]
				_, _, err := x.take(layer, s, randomPicks(rng, s.ColdPages()))
				require.NoError(t, err)
				x.reader.Finish()
			}
		})
	}
}

// TestSmallRingNeedsRounds picks more pages than the memory for reading holds.
func TestSmallRingNeedsRounds(t *testing.T) {
	x := newFixture(t, vfs.NewMem(), 1, make([]int, 4), 30)
	require.NoError(t, x.reader.Begin(selecting{x.seqs}))
	var picks []int
	for i := 0; i < 30; i += 2 { // no neighbours
		picks = append(picks, i)
	}
	rounds, read, err := x.take(2, x.seqs[0], picks)
	require.NoError(t, err)
	require.Greater(t, rounds, 3)
	require.Equal(t, len(picks), read)
}

// TestNeighboursAreReadTogether counts the reads of the file system.
func TestNeighboursAreReadTogether(t *testing.T) {
	var reads atomic.Int64
	x := newFixture(t, vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpRead {
			reads.Add(1)
		}
		return nil
	}), 1<<20, make([]int, 4), 30)
	require.NoError(t, x.reader.Begin(selecting{x.seqs}))
	segments := len(x.seqs[0].Cold())
	before := reads.Load()
	picks := []int{0, 1, 2, 3, 4, 5, 10, 11, 12, 20}
	_, read, err := x.take(2, x.seqs[0], picks)
	require.NoError(t, err)
	require.Equal(t, len(picks), read)
	if segments == 1 {
		require.EqualValues(t, 3, reads.Load()-before)
	}
	require.Less(t, reads.Load()-before, int64(3+segments))
	before = reads.Load()
	_, read, err = x.take(2, x.seqs[0], picks)
	require.NoError(t, err)
	require.Zero(t, read, "the pages are kept")
	require.Equal(t, before, reads.Load())
}

// TestFrequentPagesStay picks the same pages with changing others, more than are kept in all. The
// frequent ones are not read again.
func TestFrequentPagesStay(t *testing.T) {
	x := newFixture(t, vfs.NewMem(), 1<<17, make([]int, 4), 36)
	require.NoError(t, x.reader.Begin(selecting{x.seqs}))
	frequent := []int{3, 9, 21}
	for i := range 30 {
		other := 24 + i%12
		_, read, err := x.take(3, x.seqs[0], append(frequent[:3:3], other))
		require.NoError(t, err)
		if i == 0 {
			require.Equal(t, 4, read)
			require.Less(t, x.picked.kept.slots, 15, "the test must pick more pages than are kept")
		} else {
			require.LessOrEqual(t, read, 1)
		}
	}
}

// TestPagesOfClosedSequencesMakeRoom fills the memory with pages of a sequence. Those of the next
// sequence, which are at the same places, are kept in their stead.
func TestPagesOfClosedSequencesMakeRoom(t *testing.T) {
	x := newFixture(t, vfs.NewMem(), 1<<17, make([]int, 4), 30, 30)
	require.NoError(t, x.reader.Begin(selecting{x.seqs}))
	require.NoError(t, x.picked.Start())
	var picks []int
	for i := range x.picked.kept.slots {
		picks = append(picks, i)
	}
	require.Greater(t, len(picks), 3)
	for _, s := range x.seqs {
		for i := range 5 {
			_, read, err := x.take(3, s, picks)
			require.NoError(t, err)
			if i > 0 {
				require.Zero(t, read)
			}
		}
	}
}

// TestEveryFailedReadOfPickedPagesIsReported makes read k fail for every k. The pages can be
// taken again, with their bytes.
func TestEveryFailedReadOfPickedPagesIsReported(t *testing.T) {
	var reads, failAt atomic.Int64
	failAt.Store(-1)
	x := newFixture(t, vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpRead && reads.Add(1)-1 == failAt.Load() {
			return errBroken
		}
		return nil
	}), 1<<14, make([]int, 4), 30)
	picks := []int{0, 1, 5, 6, 7, 12, 18, 19, 25, 29}
	for k := int64(0); ; k++ {
		require.NoError(t, x.reader.Begin(selecting{x.seqs}))
		x.picked.Forget()
		failAt.Store(reads.Load() + k)
		_, _, err := x.take(2, x.seqs[0], picks)
		failAt.Store(-1)
		if err == nil {
			require.Greater(t, k, int64(3))
			break
		}
		require.ErrorIs(t, err, errBroken)
		_, _, err = x.take(2, x.seqs[0], picks)
		require.NoError(t, err)
	}
}

// TestDamagedPicksAreNotKept flips a bit of each read. No page that failed verification is served
// from memory later.
func TestDamagedPicksAreNotKept(t *testing.T) {
	fsys := &flippingFS{FS: vfs.NewMem()}
	x := newFixture(t, fsys, 1<<20, make([]int, 4), 20)
	require.NoError(t, x.reader.Begin(selecting{x.seqs}))
	picks := []int{2, 3, 11}
	for range 3 {
		fsys.on.Store(true)
		_, _, err := x.take(2, x.seqs[0], picks)
		require.ErrorIs(t, err, kv.ErrCorrupt)
		fsys.on.Store(false)
		_, read, err := x.take(2, x.seqs[0], picks)
		require.NoError(t, err)
		require.Equal(t, len(picks), read, "nothing was kept")
		x.picked.Forget()
	}
}

// flippingFS flips a bit in the middle of each read while on is set.
type flippingFS struct {
	vfs.FS
	on atomic.Bool
}

func (d *flippingFS) Create(name string) (vfs.File, error) {
	f, err := d.FS.Create(name)
	return &flippingFile{f, d}, err
}

type flippingFile struct {
	vfs.File
	fs *flippingFS
}

func (f *flippingFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if f.fs.on.Load() && n > 0 {
		p[n/2] ^= 1
	}
	return n, err
}

// TestPicksEndWithTheContext cancels a fetch.
func TestPicksEndWithTheContext(t *testing.T) {
	x := newFixture(t, vfs.NewMem(), 1<<20, make([]int, 4), 20)
	require.NoError(t, x.reader.Begin(selecting{x.seqs}))
	require.NoError(t, x.picked.Start())
	x.picked.Begin(0, 20)
	all := onFlash(x.seqs[0])
	require.True(t, x.picked.Pick(4, all[4].segment, all[4].at))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err := x.picked.Fetch(ctx, 20)
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = x.take(0, x.seqs[0], []int{4, 6})
	require.NoError(t, err)
}

// TestLentMemoryKeepsPages picks pages of a sequence whose memory limit is not used up: more pages
// are kept than the ring has room for, until the sequence grows.
func TestLentMemoryKeepsPages(t *testing.T) {
	x := newFixture(t, vfs.NewMem(), 1, make([]int, 4), 30)
	require.NoError(t, x.cache.SetHot(int64(20*x.cache.Stats().PageBytes)))
	s := x.seqs[0]
	require.NoError(t, x.reader.Begin(selecting{x.seqs}))
	picks := []int{0, 4, 5, 9, 12, 17, 20, 28}
	for i := range 3 {
		_, read, err := x.take(2, s, picks)
		require.NoError(t, err)
		if i > 0 {
			require.Zero(t, read)
		}
	}
	require.Less(t, x.picked.kept.own, len(picks), "the test needs a small ring")
	require.NoError(t, s.Grow(context.Background(), s.Len()+18*kv.BlockTokens))
	_, read, err := x.take(2, s, picks)
	require.NoError(t, err)
	require.Positive(t, read)
}
