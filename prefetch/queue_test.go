package prefetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/vfs"
)

// newQueue returns a queue that is closed at the end of the test, and checks for
// leaked goroutines.
func newQueue(t testing.TB, readers int) *Queue {
	noneLeft := testutil.NoGoroutinesLeft(t)
	q := New(readers)
	t.Cleanup(func() {
		q.Close()
		q.Close() // a second Close is allowed
		noneLeft()
	})
	return q
}

// content returns n pseudo-random bytes.
func content(n int) []byte {
	rng := rand.NewChaCha8([32]byte{})
	p := make([]byte, n)
	_, _ = rng.Read(p)
	return p
}

func TestReadsTheRequestedRange(t *testing.T) {
	file := content(10_000)
	for _, readers := range []int{0, 1, 4} {
		q := newQueue(t, readers)
		var want int64
		for _, c := range []struct{ off, n, piece int }{
			{0, 10_000, 0}, {0, 10_000, 1000}, {3, 9_997, 999}, {9_999, 1, 1}, {10_000, 0, 0}, {0, 17, 1}, {5, 10, -1},
		} {
			t.Run(fmt.Sprint(readers, c), func(t *testing.T) {
				var progress, largest atomic.Int64
				dst := make([]byte, c.n)
				ticket := q.Submit(t.Context(), Request{
					From: bytes.NewReader(file), Off: int64(c.off), Dst: dst, Piece: c.piece,
					Progress: func(n int) { progress.Add(int64(n)); largest.Store(max(largest.Load(), int64(n))) },
				})
				require.NoError(t, ticket.Wait(t.Context()))
				require.Equal(t, file[c.off:c.off+c.n], dst)
				require.EqualValues(t, c.n, progress.Load())
				if c.piece > 0 {
					require.LessOrEqual(t, largest.Load(), int64(c.piece))
				}
			})
			want += int64(c.n)
		}
		require.Equal(t, want, q.Bytes())
	}
}

// TestConcurrentSubmissions checks that reads from many goroutines get their own
// bytes.
func TestConcurrentSubmissions(t *testing.T) {
	q := newQueue(t, 3)
	file := content(50_000)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			for range 50 {
				off := rng.IntN(len(file))
				dst := make([]byte, rng.IntN(len(file)-off))
				ticket := q.Submit(t.Context(), Request{From: bytes.NewReader(file), Off: int64(off), Dst: dst, Piece: 1 + rng.IntN(9000)})
				if err := ticket.Wait(t.Context()); err != nil || !bytes.Equal(dst, file[off:off+len(dst)]) {
					t.Errorf("read of %d bytes at %d: %v", len(dst), off, err)
				}
			}
		})
	}
	wg.Wait()
}

// gate is a source whose reads wait until the test releases them.
type gate struct {
	began   chan int64 // offsets of started reads
	release chan error // results of reads
	writing atomic.Int32
}

func newGate() *gate { return &gate{began: make(chan int64, 100), release: make(chan error, 100)} }

func (g *gate) ReadAt(p []byte, off int64) (int, error) {
	g.writing.Add(1)
	defer g.writing.Add(-1)
	g.began <- off
	if err := <-g.release; err != nil {
		return 0, err
	}
	p[0] = 1
	return len(p), nil
}

// awaitFailure returns when the ticket has failed.
func awaitFailure(t *Ticket) {
	for {
		t.queue.mu.Lock()
		known := t.err != nil
		t.queue.mu.Unlock()
		if known {
			return
		}
		runtime.Gosched()
	}
}

func TestReadsOverlap(t *testing.T) {
	q, g := newQueue(t, 3), newGate()
	ticket := q.Submit(t.Context(), Request{From: g, Dst: make([]byte, 50), Piece: 10})
	seen := map[int64]bool{<-g.began: true, <-g.began: true, <-g.began: true}
	require.Equal(t, map[int64]bool{0: true, 10: true, 20: true}, seen, "ascending, three at a time")
	for range 5 {
		g.release <- nil
	}
	require.NoError(t, ticket.Wait(t.Context()))
}

func TestCancel(t *testing.T) {
	for name, bySubmit := range map[string]bool{"the context of Submit": true, "the context of Wait": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testCancel(t, bySubmit) })
		})
	}
}

// testCancel runs in a bubble, in which the queue can be observed when it has nothing left to do.
func testCancel(t *testing.T, bySubmit bool) {
	q, g := newQueue(t, 2), newGate()
	ctx, cancel := context.WithCancel(t.Context())
	submit, wait := t.Context(), ctx
	if bySubmit {
		submit, wait = ctx, t.Context()
	}
	ticket := q.Submit(submit, Request{From: g, Dst: make([]byte, 1000), Piece: 1})
	<-g.began
	<-g.began
	result := make(chan error)
	go func() { result <- ticket.Wait(wait) }()
	cancel()
	synctest.Wait()
	select {
	case <-result:
		t.Fatal("Wait returned while the destination was being written")
	default:
	}
	g.release <- nil
	g.release <- nil
	require.ErrorIs(t, <-result, context.Canceled)
	require.Zero(t, g.writing.Load(), "no read is in flight after Wait")
	require.Empty(t, g.began, "no piece starts after the cancellation")
	require.ErrorIs(t, ticket.Wait(t.Context()), context.Canceled, "a second Wait")

	// The queue continues to work.
	next := q.Submit(t.Context(), Request{From: g, Dst: make([]byte, 1)})
	g.release <- nil
	require.NoError(t, next.Wait(t.Context()))
}

func TestCancelledBeforeItBegins(t *testing.T) {
	q, g := newQueue(t, 1), newGate()
	ctx, cancel := context.WithCancel(t.Context())
	first := q.Submit(t.Context(), Request{From: g, Dst: make([]byte, 1)})
	<-g.began
	second := q.Submit(ctx, Request{From: g, Dst: make([]byte, 1)})
	third := q.Submit(ctx, Request{From: g, Dst: make([]byte, 1)}) // no Wait: the reader drops it
	cancel()
	require.ErrorIs(t, second.Wait(t.Context()), context.Canceled, "without waiting for the first")
	g.release <- nil
	require.NoError(t, first.Wait(t.Context()))
	<-third.done
	require.Empty(t, g.began)
}

func TestFinishedReadsSurviveCancellation(t *testing.T) {
	q := newQueue(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ticket := q.Submit(ctx, Request{From: bytes.NewReader(content(5)), Dst: make([]byte, 5)})
	require.NoError(t, ticket.Wait(ctx))
	cancel()
	require.NoError(t, ticket.Wait(ctx))
}

func TestFirstErrorWins(t *testing.T) {
	q, g := newQueue(t, 2), newGate()
	ticket := q.Submit(t.Context(), Request{From: g, Dst: make([]byte, 100), Piece: 1})
	<-g.began
	<-g.began
	broken := errors.New("broken")
	g.release <- broken
	awaitFailure(ticket)
	g.release <- errors.New("broken later")
	require.ErrorIs(t, ticket.Wait(t.Context()), broken)
	require.Empty(t, g.began, "no piece starts after an error")
}

// TestErrorsKeepPathAndOffset checks that the error of any failing read is the file
// system's, with path and offset.
func TestErrorsKeepPathAndOffset(t *testing.T) {
	mem := vfs.NewMem()
	file, err := mem.Create("weights.gguf")
	require.NoError(t, err)
	_, err = file.WriteAt(content(1000), 0)
	require.NoError(t, err)
	require.NoError(t, file.Close())

	for bad := range int64(10) {
		broken := errors.New("bad sector")
		faulty := vfs.NewFaulty(mem, func(op vfs.Op) error {
			if op.Kind == vfs.OpRead && op.Offset == bad*100 {
				return broken
			}
			return nil
		})
		file, err := faulty.Open("weights.gguf")
		require.NoError(t, err)
		err = newQueue(t, 3).Submit(t.Context(), Request{From: file, Dst: make([]byte, 1000), Piece: 100}).Wait(t.Context())
		require.ErrorIs(t, err, broken)
		var where *vfs.IOError
		require.ErrorAs(t, err, &where)
		require.Equal(t, "weights.gguf", where.Path)
		require.Equal(t, bad*100, where.Off)
		require.NoError(t, file.Close())
	}
}

func TestShortReadsAreErrors(t *testing.T) {
	q := newQueue(t, 2)
	past := q.Submit(t.Context(), Request{From: bytes.NewReader(content(10)), Off: 5, Dst: make([]byte, 6)})
	require.ErrorIs(t, past.Wait(t.Context()), io.EOF)
	silent := ReaderFunc(func(p []byte, _ int64) (int, error) { return len(p) - 1, nil })
	short := q.Submit(t.Context(), Request{From: silent, Off: 7, Dst: make([]byte, 3)})
	err := short.Wait(t.Context())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, "2 of 3 bytes at offset 7")
}

func TestImpossibleRequests(t *testing.T) {
	q := newQueue(t, 1)
	for _, req := range []Request{
		{Dst: make([]byte, 1)},
		{From: bytes.NewReader(nil), Off: -1, Dst: make([]byte, 1)},
		{From: bytes.NewReader(nil), Off: math.MaxInt64, Dst: make([]byte, 1)},
	} {
		require.ErrorContains(t, q.Submit(t.Context(), req).Wait(t.Context()), "cannot read 1 bytes")
	}
}

func TestCloseEndsPendingReads(t *testing.T) { synctest.Test(t, testCloseEndsPendingReads) }

func testCloseEndsPendingReads(t *testing.T) {
	q, g := newQueue(t, 1), newGate()
	begun := q.Submit(t.Context(), Request{From: g, Dst: make([]byte, 10), Piece: 5})
	queued := q.Submit(t.Context(), Request{From: g, Dst: make([]byte, 1)})
	<-g.began
	closed := make(chan struct{})
	go func() { q.Close(); close(closed) }()
	require.ErrorIs(t, queued.Wait(t.Context()), ErrClosed)
	synctest.Wait()
	select {
	case <-closed:
		t.Fatal("Close returned while the destination was being written")
	default:
	}
	g.release <- nil
	<-closed
	require.ErrorIs(t, begun.Wait(t.Context()), ErrClosed)
	late := q.Submit(t.Context(), Request{From: g, Dst: make([]byte, 1)})
	require.ErrorIs(t, late.Wait(t.Context()), ErrClosed)
	require.Empty(t, g.began)
}

// TestReadersOverlapLatency checks the purpose of the queue: on a slow device that
// handles several requests at a time, eight readers take an eighth of the time of one. It
// runs on a fake clock, so that the times are exact.
func TestReadersOverlapLatency(t *testing.T) {
	elapsed := func(readers int) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			slow := ReaderFunc(func(p []byte, _ int64) (int, error) { time.Sleep(5 * time.Millisecond); return len(p), nil })
			q := newQueue(t, readers)
			start := time.Now()
			require.NoError(t, q.Submit(t.Context(), Request{From: slow, Dst: make([]byte, 32), Piece: 1}).Wait(t.Context()))
			took = time.Since(start)
		})
		return took
	}
	require.Equal(t, 32*5*time.Millisecond, elapsed(1))
	require.Equal(t, 32/8*5*time.Millisecond, elapsed(8))
}
