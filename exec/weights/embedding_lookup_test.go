package weights

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/tiering"
)

const rowTestCols = 96

// otherSectionBytes is the size of what comes before the rows in their section.
const otherSectionBytes = 3 * pack.BlockBytes / 2

// mostRows returns a section of as many rows as a test has. All elements of a row are its index.
var mostRows = sync.OnceValue(func() []byte {
	section := make([]byte, otherSectionBytes, otherSectionBytes+4*100000*rowTestCols)
	for i := range 100000 * rowTestCols {
		section = binary.LittleEndian.AppendUint32(section, math.Float32bits(float32(i/rowTestCols)))
	}
	return section
})

// flashEmbedding returns an embedding on flash whose elements are their row's number. Each
// read calls before first and returns its error.
func flashEmbedding(count int, before func() error) *embedding {
	const off = otherSectionBytes
	section := mostRows()[:off+4*count*rowTestCols]
	e := &embedding{Matrix: Matrix{Type: quant.F32, Rows: count, Cols: rowTestCols}, off: off, size: int64(len(section))}
	e.Streamed.Count = count
	e.section = prefetch.ReaderFunc(func(p []byte, at int64) (int, error) {
		if err := before(); err != nil {
			return 0, err
		}
		return bytes.NewReader(section).ReadAt(p, at)
	})
	return e
}

// lookupTest looks up rows and checks the result.
type lookupTest struct {
	*EmbeddingLookup
	dst []float32
	raw []byte
}

func newLookupTest(t *testing.T, e *embedding, memory int) *lookupTest {
	budget := tiering.New(0)
	r, err := NewEmbeddingLookup(e, budget, LookupMemory{memory * 2 / 3, memory / 3}, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		r.Close()
		require.NoError(t, budget.Check())
	})
	return &lookupTest{r, make([]float32, 64*rowTestCols), make([]byte, e.RowBytes())}
}

func (r *lookupTest) check(t *testing.T, ids []int32) {
	t.Helper()
	require.NoError(t, r.Lookup(context.Background(), r.dst, ids, r.raw))
	for i, id := range ids {
		row := r.dst[i*rowTestCols : (i+1)*rowTestCols]
		require.Equal(t, [2]float32{float32(id), float32(id)}, [2]float32{row[0], row[rowTestCols-1]}, "row %d", id)
	}
}

func noError() error { return nil }

// TestEmbeddingLookupOnFlash looks up rows at random, many of them repeatedly, with
// different amounts of memory.
func TestEmbeddingLookupOnFlash(t *testing.T) {
	const count = 5000
	for _, memory := range []int{0, 1000, 20 << 10, 300 << 10, tiering.EmbeddingRowCache} {
		random := rand.New(rand.NewPCG(1, uint64(memory)))
		r := newLookupTest(t, flashEmbedding(count, noError), memory)
		for range 200 {
			ids := make([]int32, 1+random.IntN(64))
			for i := range ids {
				if ids[i] = int32(random.IntN(40)); random.IntN(3) == 0 {
					ids[i] = int32(random.IntN(count))
				}
			}
			r.check(t, ids)
			if random.IntN(20) == 0 {
				r.Cache.Enable(random.IntN(2) == 0)
			}
		}
		r.Cache.Enable(true)
		require.Positive(t, r.Stalled, "the time of reads is counted")
	}
}

// TestEmbeddingLookupReadError checks that a lookup returns the error of a read, and that
// the next lookup succeeds.
func TestEmbeddingLookupReadError(t *testing.T) {
	broken := errors.New("broken")
	for k := range 30 {
		left := make(chan struct{}, 100)
		for range k {
			left <- struct{}{}
		}
		failed := make(chan struct{}, 1)
		r := newLookupTest(t, flashEmbedding(20000, func() error {
			select {
			case <-left:
			default:
				select {
				case failed <- struct{}{}:
					return broken
				default:
				}
			}
			return nil
		}), tiering.EmbeddingRowCache)
		ids := make([]int32, 30)
		for i := range ids {
			ids[i] = int32(i * 600)
		}
		require.ErrorIs(t, r.Lookup(context.Background(), r.dst, ids, r.raw), broken)
		r.check(t, ids)
	}
}

// TestEmbeddingLookupAllReadsFail makes all reads fail for a while. The lookup after that
// succeeds.
func TestEmbeddingLookupAllReadsFail(t *testing.T) {
	broken := errors.New("broken")
	var gone atomic.Bool
	r := newLookupTest(t, flashEmbedding(100000, func() error {
		if gone.Load() {
			return broken
		}
		return nil
	}), tiering.EmbeddingRowCache)
	ids := make([]int32, 30)
	random := rand.New(rand.NewPCG(20, 30))
	for range 20 {
		for i := range ids {
			ids[i] = random.Int32N(100000)
		}
		gone.Store(true)
		require.ErrorIs(t, r.Lookup(context.Background(), r.dst, ids, r.raw), broken)
		gone.Store(false)
		r.check(t, ids)
	}
}

// TestEmbeddingLookupResize changes the readers' memory between lookups, also while the
// read of a cancelled lookup is in flight.
func TestEmbeddingLookupResize(t *testing.T) {
	var gate atomic.Pointer[chan struct{}]
	e := flashEmbedding(100000, func() error {
		if g := gate.Load(); g != nil {
			<-*g
		}
		return nil
	})
	budget := tiering.New(0)
	r := newLookupTest(t, e, 0)
	for i, readers := range []int{3, 0, 7, 7, 1} {
		ids := []int32{7, int32(9000 * i), 20000, 30000, 40000, 50000}
		closed := make(chan struct{})
		gate.Store(&closed)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.ErrorIs(t, r.Lookup(ctx, r.dst, ids, r.raw), context.Canceled)
		gate.Store(nil)
		close(closed)
		require.NoError(t, r.Resize(budget, readers*e.BufferBytes()))
		require.Len(t, r.buffers, 1+readers)
		r.check(t, ids)
	}
	require.NoError(t, r.Resize(budget, 0))
	require.NoError(t, budget.Check())
	require.ErrorIs(t, r.Resize(tiering.New(1), 2*e.BufferBytes()), tiering.ErrBudget)
	r.check(t, []int32{1, 2, 60000})
}

// TestEmbeddingLookupCancelled cancels lookups whose reads are in flight.
func TestEmbeddingLookupCancelled(t *testing.T) {
	gate := make(chan struct{})
	reading := make(chan struct{}, 100)
	r := newLookupTest(t, flashEmbedding(100000, func() error {
		reading <- struct{}{}
		<-gate
		return nil
	}), tiering.EmbeddingRowCache)
	ids := []int32{1, 9000, 20000, 30000, 40000, 50000}
	for i := range 3 { // no read completes in between
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- r.Lookup(ctx, r.dst, ids, r.raw) }()
		if i == 0 {
			<-reading
		}
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	}
	close(gate)
	r.check(t, ids)
	r.check(t, []int32{7, 9000, 70000})
}

func TestEmbeddingLookupAllocatesNothing(t *testing.T) {
	r := newLookupTest(t, flashEmbedding(5000, noError), tiering.EmbeddingRowCache)
	ids := make([]int32, 1)
	random := rand.New(rand.NewPCG(1, 1))
	require.Zero(t, testutil.AllocsPerRun(500, 0, func() {
		ids[0] = int32(random.IntN(5000))
		if err := r.Lookup(context.Background(), r.dst, ids, r.raw); err != nil {
			panic(err)
		}
	}))
}

// TestRowCacheBeatsLRU compares the cache with LRU, on ids with the distribution of words,
// interrupted by stretches of ids that occur once.
func TestRowCacheBeatsLRU(t *testing.T) {
	const row, slots = 8, 256
	random := rand.New(rand.NewPCG(5, 6))
	words := rand.NewZipf(random, 1.07, 2, 30000)
	c, err := newRowCache(tiering.New(0), row, slots*row)
	require.NoError(t, err)
	defer c.free()
	require.Len(t, c.ids, slots)
	last := map[int32]int{} // last use of an id
	hits, recent, total := 0, 0, 0
	for at := range 60000 {
		id := int32(words.Uint64())
		if at%1000 < 300 {
			id = int32(30000 + random.IntN(90000))
		}
		if total++; c.get(id) != nil {
			hits++
		} else {
			c.admit(id, make([]byte, row))
		}
		if _, ok := last[id]; ok {
			recent++
		} else if len(last) == slots {
			oldest := id
			for other, used := range last {
				if oldest == id || used < last[oldest] {
					oldest = other
				}
			}
			delete(last, oldest)
		}
		last[id] = at
	}
	t.Logf("%d lookups: %.1f %% hits, %.1f %% with LRU", total, 100*float64(hits)/float64(total), 100*float64(recent)/float64(total))
	require.Greater(t, hits, recent)
}

// TestLookupStoredBegunAhead submits the reads of a lookup before the lookup, and looks up other rows
// too: each row is that of its token, as it is stored.
func TestLookupStoredBegunAhead(t *testing.T) {
	e := flashEmbedding(5000, noError)
	r := newLookupTest(t, e, 300<<10)
	ids := []int32{7, 4000, 7, 12, 3999}
	stored := make([]byte, len(ids)*e.RowBytes())
	for _, begun := range [][]int32{ids, {1, 2}, nil} {
		r.Begin(begun)
		clear(stored)
		require.NoError(t, r.LookupStored(context.Background(), stored, ids, r.raw))
		copyOf := r.dst[:len(ids)*rowTestCols]
		require.NoError(t, r.Lookup(context.Background(), copyOf, ids, r.raw))
		for i := range ids {
			row := make([]byte, e.RowBytes())
			require.NoError(t, r.LookupStored(context.Background(), row, ids[i:i+1], r.raw))
			require.Equal(t, row, stored[i*e.RowBytes():(i+1)*e.RowBytes()], "token %d", ids[i])
			require.Equal(t, float32(ids[i]), copyOf[i*rowTestCols])
		}
	}
}
