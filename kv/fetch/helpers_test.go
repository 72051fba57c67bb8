package fetch

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/crc"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// noWeights is the interleaver of a model that streams no weights.
type noWeights struct{}

func (noWeights) CanInterleave() bool                         { return false }
func (noWeights) Interleave([]prefetch.Run, []int) (at []int) { panic("no weights are streamed") }
func (noWeights) Separate()                                   {}
func (noWeights) Generation() int                             { return 0 }
func (noWeights) WeightStream() *prefetch.Stream              { return nil }

// sequences is a batch whose new tokens follow the stored ones.
type sequences []*kv.Seq

func (b sequences) Sequences() int                { return len(b) }
func (b sequences) Sequence(i int) (*kv.Seq, int) { return b[i], b[i].Len() }
func (b sequences) Selects(int) bool              { return false }
func (b sequences) Shared(int) int                { return 0 }

// selecting is a batch whose sequences select pages.
type selecting struct{ sequences }

func (selecting) Selects(int) bool { return true }

// testShape has pages of different sizes, of which most begin off the alignment of reads, and
// layers without keys.
var testShape = kv.Shape{HeadDim: 9, KVHeads: []int{1, 0, 3, 2}}

// fixture is a cache whose pages are on flash, except the last one of each sequence, and its
// readers.
type fixture struct {
	t      *testing.T
	cache  *kv.Cache
	reader *Reader
	picked *PickedPages
	seqs   sequences
}

const fixtureContext = 40 * kv.BlockTokens

// newFixture returns a fixture with the pages of sequences on a file system. ring is the size of
// the reader's ring, and windows the sliding windows of the layers.
func newFixture(t *testing.T, fsys vfs.FS, ring int64, windows []int, pages ...int) *fixture {
	budget := tiering.New(0)
	cache, err := kv.NewCache(testShape, budget, kv.Options{Hot: 1, Spill: kv.NewScratch(fsys, "kv", budget)})
	require.NoError(t, err)
	x := &fixture{t: t, cache: cache}
	x.reader = NewReader(Options{Cache: cache, Windows: windows, Budget: budget, Ring: ring, User: prefetch.Threads{Readers: 2}, Weights: noWeights{}})
	x.picked = NewPickedPages(x.reader, fixtureContext, nil)
	for i, n := range pages {
		x.seqs = append(x.seqs, x.add(n, uint64(i)))
	}
	t.Cleanup(func() {
		for _, s := range x.seqs {
			s.Close()
		}
		x.picked.Close()
		x.reader.Close()
		require.NoError(t, cache.Close())
		require.NoError(t, budget.Check())
	})
	return x
}

// add returns a sequence of random keys and values, with a number of pages on flash.
func (x *fixture) add(pages int, seed uint64) *kv.Seq {
	rng, s := rand.New(rand.NewPCG(seed, 5)), x.cache.NewSeq()
	for pos := range (pages + 1) * kv.BlockTokens {
		require.NoError(x.t, s.Grow(context.Background(), pos+1))
		for l, heads := range testShape.KVHeads {
			k := make([]float32, heads*testShape.HeadDim)
			for i := range k {
				k[i] = rng.Float32()
			}
			s.Put(l, pos, k, k)
		}
		s.Commit(pos + 1)
	}
	require.Equal(x.t, pages, s.ColdPages())
	return s
}

// page is a page of a sequence in its segment.
type page struct {
	segment kv.Segment
	at      int
}

// onFlash returns the pages of a sequence that are on flash.
func onFlash(s *kv.Seq) (out []page) {
	for _, span := range s.Cold() {
		for i := range span.Pages {
			out = append(out, page{span.Segment(), i})
		}
	}
	return out
}

// verify returns an error if a page has not the bytes that were written.
func verify(p Page, layer int) error { return p.Verify(layer, crc.Update(0, p.Data)) }

// errBroken is the error of reads that a test makes fail.
var errBroken = errors.New("broken")
