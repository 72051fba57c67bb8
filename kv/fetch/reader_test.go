package fetch

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

// readAll makes an exact pass over all sequences and checks every page.
func (x *fixture) readAll() {
	require.NoError(x.t, x.reader.Begin(x.seqs))
	require.NoError(x.t, x.pass())
	x.reader.Finish()
}

// pass takes the pages of all layers in order. Each must be the next page of its sequence that the
// layer attends to.
func (x *fixture) pass() error {
	var pages []Page
	for l := range testShape.KVHeads {
		x.reader.Allow(l)
		next := map[int]int{}
		for i, s := range x.seqs {
			next[i] = x.reader.FirstPage(l, s.Len())
		}
		for reads := x.reader.Layer(l); len(reads) > 0; {
			n := Adjacent(reads)
			group, sequence := reads[:n], reads[0].Sequence
			reads = reads[n:]
			all, last := onFlash(x.seqs[sequence]), group[n-1]
			for next[sequence] < last.FirstPage+last.Pages {
				page, from := next[sequence]-group[0].FirstPage, group
				for page >= from[0].Pages {
					page -= from[0].Pages
					from = from[1:]
				}
				var err error
				if pages, err = x.reader.Take(context.Background(), pages[:0], from, l, page); err != nil {
					return err
				}
				require.NotEmpty(x.t, pages)
				for i := range pages {
					require.Equal(x.t, all[next[sequence]].segment, pages[i].segment)
					if err := verify(pages[i], l); err != nil {
						return err
					}
					next[sequence]++
				}
			}
		}
		for i, s := range x.seqs {
			if testShape.KVHeads[l] > 0 {
				require.Equal(x.t, s.ColdPages(), next[i], "layer %d, sequence %d", l, i)
			}
		}
	}
	return nil
}

// TestReaderTakesAllPagesInOrder makes passes with rings and windows of several sizes.
func TestReaderTakesAllPagesInOrder(t *testing.T) {
	for _, ring := range []int64{1, 1 << 15, 1 << 20} {
		for _, windows := range [][]int{{0, 0, 0, 0}, {0, 0, 200, 0}, {100, 0, 700, 300}} {
			t.Run(fmt.Sprint(ring, windows), func(t *testing.T) {
				x := newFixture(t, vfs.NewMem(), ring, windows, 17, 5, 30)
				for i := range 4 {
					x.reader.ReadOnDemand(i == 3)
					x.readAll()
				}
				x.reader.ReadOnDemand(false)
				x.seqs = x.seqs[1:2:2] // other pages than were prefetched
				x.readAll()
			})
		}
	}
}

// TestEveryFailedReadOfAPassIsReported makes read k fail for every k. The next pass succeeds.
func TestEveryFailedReadOfAPassIsReported(t *testing.T) {
	var reads, failAt atomic.Int64
	failAt.Store(-1)
	x := newFixture(t, vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpRead && reads.Add(1)-1 == failAt.Load() {
			return errBroken
		}
		return nil
	}), 1<<15, make([]int, 4), 17)
	for k := range int64(12) {
		failAt.Store(reads.Load() + k)
		failed := 0
		for range 3 { // a pass prefetches the first reads of the next one
			require.NoError(t, x.reader.Begin(x.seqs))
			if err := x.pass(); err != nil {
				require.ErrorIs(t, err, errBroken)
				failed++
				continue
			}
			x.reader.Finish()
		}
		failAt.Store(-1)
		require.Equal(t, 1, failed, "read %d", k)
	}
}
