package prefetch

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// newStream returns a stream that is closed at the end of the test, and checks for
// leaked goroutines.
func newStream(t testing.TB, readers int, ring Ring, seq Sequence) *Stream {
	return newScheduledStream(t, nil, readers, ring, seq)
}

// newScheduledStream is newStream with a scheduler.
func newScheduledStream(t testing.TB, scheduler *Scheduler, readers int, ring Ring, seq Sequence) *Stream {
	noneLeft := testutil.NoGoroutinesLeft(t)
	s := NewStream(Threads{Scheduler: scheduler, Readers: readers}, ring, seq)
	t.Cleanup(func() {
		s.Close()
		s.Close() // a second Close is allowed
		noneLeft()
	})
	return s
}

func newRing(piece, slots, slack int) Ring {
	return Ring{Memory: make([]byte, piece*slots+slack), Piece: piece, Slots: slots}
}

// runsOf divides a file into runs with gaps between them.
func runsOf(file []byte, sizes ...int) (runs []Run) {
	off := 0
	for _, n := range sizes {
		runs = append(runs, Run{From: bytes.NewReader(file), Off: int64(off), Size: int64(n)})
		off += n + 3
	}
	return runs
}

// take takes all of a run from off on and compares it with the file.
func take(t *testing.T, s *Stream, rng *rand.Rand, i int, off int64, unit int) {
	r := s.seq.run(i)
	want := make([]byte, r.Size)
	_, err := r.From.ReadAt(want, r.Off)
	require.NoError(t, err)
	for r.Size-off >= int64(unit) {
		got, err := s.Take(t.Context(), i, off, unit, 1+rng.IntN(100), unit+rng.IntN(100))
		require.NoError(t, err)
		require.NotEmpty(t, got)
		require.Zero(t, len(got)%unit)
		require.True(t, bytes.Equal(want[off:off+int64(len(got))], got), "run %d offset %d", i, off)
		off += int64(len(got))
	}
}

// TestStreamDeliversBytesInOrder tests random sizes of runs, pieces, rings and units,
// with and without tails and with skipped bytes.
func TestStreamDeliversBytesInOrder(t *testing.T) {
	file := content(4000)
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		unit := 1 + rng.IntN(40)
		piece := 8 + rng.IntN(50)
		slots := (unit+piece-1)/piece + 1 + rng.IntN(4)
		var sizes []int
		for range 1 + rng.IntN(6) {
			sizes = append(sizes, unit+rng.IntN(400))
		}
		runs := runsOf(file, sizes...)
		cut := rng.IntN(len(runs) + 1)
		s := newStream(t, 1+rng.IntN(4), newRing(piece, slots, unit), Sequence{Body: runs[:cut], Tail: runs[cut:]})
		for range 5 {
			tails := 0
			if cut < len(runs) {
				tails = rng.IntN(3)
			}
			s.Begin(tails)
			n := cut + tails*(len(runs)-cut)
			for i := range n {
				if rng.IntN(5) > 0 {
					take(t, s, rng, i, int64(rng.IntN(unit)), unit)
				}
			}
			if rng.IntN(4) > 0 { // otherwise the pass is abandoned
				s.Finish()
			}
		}
		s.Close()
	}
}

func TestStreamPrefetchesTheNextPass(t *testing.T) { synctest.Test(t, testStreamPrefetchesTheNextPass) }

func testStreamPrefetchesTheNextPass(t *testing.T) {
	s := newStream(t, 2, newRing(10, 20, 10), Sequence{Body: runsOf(content(100), 30, 30), Tail: runsOf(content(100), 20)})
	read := func(n int64) {
		synctest.Wait() // the readers have nothing left to do
		require.EqualValues(t, n, s.Stats(Weights).Bytes, "the stream does not know yet whether the pass reads the tail")
	}
	read(60)
	s.Begin(1)
	read(60 + 20 + 60)
	s.Finish()
	s.Begin(0)
	read(60 + 20 + 60 + 60)
}

func TestHeldStreamReadsAllowedRuns(t *testing.T) { synctest.Test(t, testHeldStreamReadsAllowedRuns) }

func testHeldStreamReadsAllowedRuns(t *testing.T) {
	s := newStream(t, 2, newRing(10, 20, 10), Sequence{Body: runsOf(content(100), 30, 30)})
	read := func(n int64) {
		t.Helper()
		synctest.Wait() // the readers have nothing left to do
		require.EqualValues(t, n, s.Stats(Weights).Bytes)
	}
	rng := rand.New(rand.NewPCG(3, 1))
	read(60)
	s.Hold(true)
	for pass := range int64(3) { // Hold comes after the reads of the first pass
		s.Begin(0)
		read(60 + max(0, pass-1)*60)
		for i := range 2 {
			s.Allow(i + 1)
			take(t, s, rng, i, 0, 10)
		}
		s.Finish()
		read(60 + pass*60)
	}
	s.Hold(false)
	read(60 + 2*60 + 60)
	s.Begin(0)
	take(t, s, rng, 0, 0, 10)
	s.Finish()
}

func TestStreamRefusesInvalidTakes(t *testing.T) {
	s := newStream(t, 1, newRing(10, 3, 15), Sequence{Body: runsOf(content(100), 30, 30)})
	s.Begin(0)
	for _, c := range []struct {
		run, unit int
		off       int64
	}{{0, 31, 0}, {0, 20, 20}, {0, 16, 0}} {
		_, err := s.Take(t.Context(), c.run, c.off, c.unit, 1, 100)
		require.ErrorContains(t, err, "does not fit")
	}
	_, err := s.Take(t.Context(), 1, 0, 5, 1, 100)
	require.NoError(t, err)
	_, err = s.Take(t.Context(), 0, 0, 5, 1, 100)
	require.ErrorContains(t, err, "behind")
}

// flaky fails reads while failing is set.
type flaky struct {
	*bytes.Reader
	failing atomic.Bool
}

var errFlaky = errors.New("flaky")

func (f *flaky) ReadAt(p []byte, off int64) (int, error) {
	if f.failing.Load() {
		return 0, errFlaky
	}
	return f.Reader.ReadAt(p, off)
}

func TestStreamErrorsEndThePassOnly(t *testing.T) {
	from := &flaky{Reader: bytes.NewReader(content(100))}
	from.failing.Store(true)
	s := newStream(t, 2, newRing(10, 3, 10), Sequence{Body: []Run{{from, 0, 100, Weights}}})
	s.Begin(0)
	_, err := s.Take(t.Context(), 0, 0, 10, 10, 10)
	require.ErrorIs(t, err, errFlaky)
	from.failing.Store(false)
	s.Begin(0)
	take(t, s, rand.New(rand.NewPCG(1, 1)), 0, 0, 10)
	s.Finish()

	short := newStream(t, 1, newRing(10, 3, 10), Sequence{Body: []Run{{bytes.NewReader(content(15)), 0, 20, Weights}}})
	short.Begin(0)
	_, err = short.Take(t.Context(), 0, 10, 10, 10, 10)
	require.ErrorContains(t, err, "EOF")
}

func TestStreamCancelAndClose(t *testing.T) { synctest.Test(t, testStreamCancelAndClose) }

func testStreamCancelAndClose(t *testing.T) {
	gate := make(chan struct{})
	blocked := ReaderFunc(func(p []byte, _ int64) (int, error) { <-gate; return len(p), nil })
	s := newStream(t, 1, newRing(10, 3, 10), Sequence{Body: []Run{{blocked, 0, 100, Weights}}})
	s.Begin(0)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	_, err := s.Take(ctx, 0, 0, 10, 10, 10)
	require.ErrorIs(t, err, context.Canceled)
	time.AfterFunc(10*time.Millisecond, func() { close(gate) })
	s.Close()
	_, err = s.Take(t.Context(), 0, 0, 10, 10, 10)
	require.ErrorIs(t, err, ErrClosed)
}

func TestStreamReconfigures(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	s := newStream(t, 3, newRing(10, 4, 10), Sequence{Body: runsOf(content(400), 100, 100)})
	s.Begin(0)
	take(t, s, rng, 0, 0, 10)
	s.Reconfigure(newRing(16, 3, 12), Sequence{Body: runsOf(content(300), 50, 60, 70)})
	for range 3 {
		s.Begin(0)
		for i := range 3 {
			take(t, s, rng, i, 0, 12)
		}
		s.Finish()
	}
	s.Reconfigure(Ring{}, Sequence{})
	s.Begin(2)
	s.Finish()
}

func TestStreamAllocatesNothing(t *testing.T) {
	s := newStream(t, 2, newRing(100, 4, 100), Sequence{Body: runsOf(content(3000), 1000, 1500), Tail: runsOf(content(500), 500)})
	requireNoAllocations(t, s, 1, []int64{1000, 1500, 500}, 50, 100, 300)
}

// requireNoAllocations takes runs of the given sizes in several passes and checks
// that the stream allocates nothing.
func requireNoAllocations(t *testing.T, s *Stream, tails int, sizes []int64, unit, least, most int) {
	pass := func() {
		s.Begin(tails)
		for i, size := range sizes {
			for off := int64(0); off < size; {
				got, err := s.Take(t.Context(), i, off, unit, least, most)
				if err != nil {
					t.Fatal(err)
				}
				off += int64(len(got))
			}
		}
		s.Finish()
	}
	pass()
	require.Zero(t, testutil.AllocsPerRun(20, 0, pass))
}
