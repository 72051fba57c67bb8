package prefetch

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/vfs"
)

// admitted returns the grant of an admission that must succeed.
func admitted(t *testing.T, s *Scheduler, class Class, bytes int) Grant {
	t.Helper()
	g, ok := s.Admit(class, bytes)
	require.True(t, ok, "%v", class)
	return g
}

func refused(t *testing.T, s *Scheduler, class Class, bytes int) {
	t.Helper()
	_, ok := s.Admit(class, bytes)
	require.False(t, ok, "%v", class)
}

// TestClassesGetWhatIsLeft fills the budget: each class is refused where only more urgent ones
// have room, and what is awaited never is.
func TestClassesGetWhatIsLeft(t *testing.T) {
	s := NewScheduler()
	streamed := admitted(t, s, Streamed, leastDepth/2-1)
	refused(t, s, Guessed, 2)
	guess := admitted(t, s, Guessed, 1)
	refused(t, s, Streamed, leastDepth/2+1)
	more := admitted(t, s, Streamed, leastDepth/2)
	refused(t, s, Streamed, 1)
	awaited := admitted(t, s, Awaited, 10*leastDepth)
	s.Done(more)
	s.Done(streamed)
	s.Done(guess)
	refused(t, s, Guessed, 1)
	s.Done(awaited)
	s.Done(admitted(t, s, Guessed, 5*leastDepth)) // larger than its part: alone
	require.Zero(t, s.total)
	require.Zero(t, s.inFlight)
	stats := s.Stats()
	require.EqualValues(t, 2, stats[Guessed].Transfers)
	require.EqualValues(t, 2, stats[Guessed].Waits)
	require.EqualValues(t, 5*leastDepth+1, stats[Guessed].Bytes)
	require.EqualValues(t, "awaited streamed guessed written", Awaited.String()+" "+Streamed.String()+" "+Guessed.String()+" "+Written.String())
}

// TestNilSchedulerAdmits uses a scheduler that does not exist.
func TestNilSchedulerAdmits(t *testing.T) {
	var s *Scheduler
	for class := range Classes {
		s.Done(admitted(t, s, class, 1<<40))
	}
	s.Join(nil, nil)()
	s.Waited(time.Second)
	s.Done(s.awaitWrite(nil, 1<<40, time.Time{}))
	require.Zero(t, s.Stats())
}

// TestRefusedClientsAreWoken refuses a guess: its client is woken when there is room for it, not
// earlier, and not after it has left.
func TestRefusedClientsAreWoken(t *testing.T) {
	s := NewScheduler()
	woken := 0
	leave := s.Join(func() { woken++ }, nil)
	s.Join(nil, nil)
	first, second := admitted(t, s, Streamed, leastDepth/2), admitted(t, s, Streamed, leastDepth/2)
	s.Done(admitted(t, s, Awaited, 1))
	require.Zero(t, woken, "nobody was refused")
	refused(t, s, Guessed, 1)
	s.Done(first)
	require.Zero(t, woken, "there is no room for a guess")
	s.Done(second)
	require.Equal(t, 1, woken)
	s.Done(admitted(t, s, Guessed, 1))
	require.Equal(t, 1, woken)
	first = admitted(t, s, Streamed, leastDepth)
	refused(t, s, Guessed, 1)
	leave()
	s.Done(first)
	require.Equal(t, 1, woken)
}

// TestStreamLeavesRoomForOthers gives a stream its whole ring while it is alone, and only what
// keeps the device busy after it has met others.
func TestStreamLeavesRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler()
		s.fit(Ring{Piece: leastDepth / 8, Slots: 32})
		fill := func(r streamRead) (grants []Grant) {
			r.bytes = leastDepth / 8
			for {
				g, ok := s.admitStreamed(r)
				if !ok || len(grants) == 40 {
					return grants
				}
				grants = append(grants, g)
			}
		}
		done := func(grants []Grant) {
			for _, g := range grants {
				s.Done(g)
			}
		}
		alone := fill(streamRead{})
		require.Len(t, alone, 32)
		s.Done(admitted(t, s, Awaited, 1))
		done(alone)
		beside := fill(streamRead{})
		require.Len(t, beside, 8)
		late, ok := s.admitStreamed(streamRead{bytes: 1, awaited: true})
		require.True(t, ok)
		require.Equal(t, Awaited, late.class)
		s.Done(late)
		done(beside)
		done(fill(streamRead{batched: true}))
		require.EqualValues(t, 32+8+32, s.Stats()[Streamed].Transfers)
		time.Sleep(contestTime + 1)
		done(fill(streamRead{}))
		require.EqualValues(t, 32+8+32+32, s.Stats()[Streamed].Transfers)
	})
}

// TestLateReadsMoveUp measures a device of 1 GB/s. A read of a stream that is refused moves up if
// its user takes it before the device could have read it.
func TestLateReadsMoveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler()
		for range 3 {
			g := admitted(t, s, Streamed, 10e6)
			time.Sleep(10 * time.Millisecond)
			s.Done(g)
		}
		require.InDelta(t, 1e9, s.rate, 1)
		require.EqualValues(t, 16e6, s.depth())
		full := admitted(t, s, Streamed, 40e6)
		_, ok := s.admitStreamed(streamRead{bytes: 1e6, due: 42 * time.Millisecond})
		require.False(t, ok)
		_, ok = s.admitStreamed(streamRead{bytes: 1e6})
		require.False(t, ok, "its deadline is unknown")
		g, ok := s.admitStreamed(streamRead{bytes: 1e6, due: 41 * time.Millisecond})
		require.True(t, ok)
		require.Equal(t, Awaited, g.class)
		require.EqualValues(t, 1, s.Stats()[Awaited].MovedUp)
		s.Done(g)
		s.Done(full)
	})
}

// TestWritesWaitForReads writes while a stream reads: the write begins when the reads leave room,
// moves up at its deadline, and once more, so that it does not starve.
func TestWritesWaitForReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler()
		var writing atomic.Int32
		w := newWriteWait()
		write := func(due time.Duration) {
			at := time.Now().Add(due)
			go func() {
				g := s.awaitWrite(w, 1<<18, at)
				writing.Add(1)
				s.Done(g)
			}()
			synctest.Wait()
		}
		reads := admitted(t, s, Streamed, leastDepth/2)
		write(time.Hour)
		require.Zero(t, writing.Load())
		s.Done(reads)
		synctest.Wait()
		require.EqualValues(t, 1, writing.Load())

		reads = admitted(t, s, Streamed, leastDepth/2)
		write(time.Second)
		time.Sleep(time.Second - time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 1, writing.Load())
		time.Sleep(2 * collectEvery)
		synctest.Wait()
		require.EqualValues(t, 2, writing.Load(), "it has moved up to the class of the stream")
		s.Done(reads)

		reads = admitted(t, s, Streamed, leastDepth)
		write(time.Second)
		time.Sleep(time.Second + 2*collectEvery)
		synctest.Wait()
		require.EqualValues(t, 2, writing.Load())
		s.Done(reads)
		synctest.Wait()
		require.EqualValues(t, 3, writing.Load(), "it comes before reads that ask later")

		reads = admitted(t, s, Streamed, leastDepth)
		write(time.Second)
		time.Sleep(2*time.Second + 4*collectEvery)
		synctest.Wait()
		require.EqualValues(t, 4, writing.Load(), "it waits no longer")
		s.Done(reads)
		stats := s.Stats()
		require.EqualValues(t, 4, stats[Written].Waits)
		require.EqualValues(t, 1, stats[Written].Transfers)
		require.EqualValues(t, 1, stats[Awaited].MovedUp)
		require.Zero(t, s.total)
	})
}

// TestReadsWaitForAWriteThatMovedUp lets a write move up while reads come one after another: they
// are refused until the write was admitted.
func TestReadsWaitForAWriteThatMovedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler()
		first, second := admitted(t, s, Streamed, leastDepth/2), admitted(t, s, Streamed, leastDepth/2)
		var grant Grant
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			grant = s.awaitWrite(newWriteWait(), leastDepth, time.Now())
		}()
		synctest.Wait()
		s.Done(first)
		refused(t, s, Streamed, 1)
		s.Done(second)
		<-ended
		require.Equal(t, Streamed, grant.class)
		refused(t, s, Streamed, 1)
		s.Done(grant)
		s.Done(admitted(t, s, Streamed, 1))
	})
}

// TestHurriedWriteDoesNotWait hurries a writer that waits for reads, and one that does not yet.
func TestHurriedWriteDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler()
		reads := admitted(t, s, Streamed, 10*leastDepth)
		w := &Writer{Scheduler: s}
		defer w.Close()
		written := 0
		to := writerFunc(func(p []byte, _ int64) (int, error) {
			written++
			return len(p), nil
		})
		job := func(write WriteFunc) error {
			for range 3 {
				if err := write(to, make([]byte, 10), 0); err != nil {
					return err
				}
			}
			return nil
		}
		w.Start(job, Deadline{At: time.Now().Add(time.Hour), Bytes: 30})
		synctest.Wait()
		require.Zero(t, written)
		begun := time.Now()
		ended, err := w.Wait(context.Background())
		require.True(t, ended)
		require.NoError(t, err)
		require.Equal(t, 3, written)
		require.Equal(t, begun, time.Now())

		w.Start(job, Deadline{At: time.Now().Add(time.Hour), Bytes: 30})
		synctest.Wait()
		require.Equal(t, 3, written, "the next job waits again")
		ended, err = w.Stop()
		require.True(t, ended)
		require.ErrorIs(t, err, ErrClosed)
		require.Equal(t, 3, written)
		s.Done(reads)
	})
}

// TestWritesAreSpread writes a job while reads leave no room of their own: its pieces move up one
// after another, and the job has ended before its deadline.
func TestWritesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler()
		reads := admitted(t, s, Streamed, leastDepth/2)
		w := &Writer{Scheduler: s}
		defer w.Close()
		begun := time.Now()
		var at []time.Duration
		to := writerFunc(func(p []byte, _ int64) (int, error) {
			at = append(at, time.Since(begun))
			return len(p), nil
		})
		w.Start(func(write WriteFunc) error {
			for range 8 {
				if err := write(to, make([]byte, 1<<10), 0); err != nil {
					return err
				}
			}
			return nil
		}, Deadline{At: begun.Add(8 * time.Second), Bytes: 8 << 10})
		time.Sleep(8 * time.Second)
		ended, err := w.Poll()
		require.True(t, ended)
		require.NoError(t, err)
		for i, d := range at[1:] {
			require.Greater(t, d-at[i], 100*time.Millisecond)
		}
		s.Done(reads)
	})
}

// TestWriterCollectsReads leaves reads of a stream uncollected, as after the end of a pass. A
// waiting writer collects them.
func TestWriterCollectsReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler()
		reads := admitted(t, s, Streamed, 10*leastDepth)
		s.Join(nil, func() {
			s.Done(reads)
			reads = Grant{}
		})
		s.Done(s.awaitWrite(newWriteWait(), 1, time.Now().Add(time.Hour)))
		require.Zero(t, s.total)
	})
}

// TestAdmissionAllocatesNothing admits without contention and after refusals.
func TestAdmissionAllocatesNothing(t *testing.T) {
	s := NewScheduler()
	s.Join(func() {}, func() {})
	w, overdue := newWriteWait(), time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	require.Zero(t, testutil.AllocsPerRun(50, 0, func() {
		a, _ := s.Admit(Awaited, 1)
		b, _ := s.admitStreamed(streamRead{bytes: 1 << 30})
		c, _ := s.Admit(Guessed, 1)
		s.Done(a)
		s.Done(b)
		s.Done(c)
		s.Done(s.awaitWrite(w, 1, overdue))
	}))
}

// BenchmarkAdmission is the cost of an admission without contention.
func BenchmarkAdmission(b *testing.B) {
	s := NewScheduler()
	for b.Loop() {
		g, _ := s.admitStreamed(streamRead{bytes: 1 << 20})
		s.Done(g)
	}
}

// TestWritesTakeWhatTheStreamLeaves takes passes of a stream while a writer writes to the same
// device. If the passes wait for the device, writes begin only when they have moved up at their
// deadlines. If the passes compute for longer than the device reads, all writes fit in between.
func TestWritesTakeWhatTheStreamLeaves(t *testing.T) {
	for _, c := range []struct {
		name    string
		compute time.Duration // for each piece, which the device reads in 1 ms
		movesUp bool
	}{{"flash-bound", 0, true}, {"compute-bound", 3 * time.Millisecond, false}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const piece, pieces, writes = 1e6, 60, 20
				var (
					mu     sync.Mutex
					idleAt time.Time
				)
				transfer := func(n int) (int, error) { // of one byte in a nanosecond, in the order of the calls
					mu.Lock()
					if now := time.Now(); idleAt.Before(now) {
						idleAt = now
					}
					idleAt = idleAt.Add(time.Duration(n))
					until := time.Until(idleAt)
					mu.Unlock()
					time.Sleep(until)
					return n, nil
				}
				scheduler := NewScheduler()
				run := Run{From: ReaderFunc(func(p []byte, _ int64) (int, error) { return transfer(len(p)) }), Size: pieces * piece}
				s := NewStream(Threads{Scheduler: scheduler, Readers: 8}, newRing(piece, 16, piece), Sequence{Body: []Run{run}})
				defer s.Close()
				pass := func() {
					s.Begin(0)
					for off := int64(0); off < run.Size; off += piece {
						_, err := s.Take(t.Context(), 0, off, piece, piece, piece)
						require.NoError(t, err)
						time.Sleep(c.compute)
					}
					s.Finish()
				}
				pass() // measures the device
				before := scheduler.Stats()
				w := &Writer{Scheduler: scheduler}
				defer w.Close()
				deadline := time.Now().Add(800 * time.Millisecond)
				w.Start(func(write WriteFunc) error {
					for range writes {
						to := writerFunc(func(p []byte, _ int64) (int, error) { return transfer(len(p)) })
						if err := write(to, make([]byte, 1e5), 0); err != nil {
							return err
						}
					}
					return nil
				}, Deadline{At: deadline, Bytes: writes * 1e5})
				ended := false
				for !ended && time.Now().Before(deadline) {
					pass()
					ended, _ = w.Poll()
				}
				require.True(t, ended, "the deadline is met")
				after := scheduler.Stats()
				begun := after[Written].Transfers - before[Written].Transfers
				if c.movesUp {
					require.Less(t, begun, int64(writes/4))
					require.Greater(t, after[Streamed].MovedUp-before[Streamed].MovedUp, int64(writes/2))
				} else {
					require.EqualValues(t, writes, begun)
				}
			})
		})
	}
}

// TestStreamsTakeBesideAFullBudget takes passes of a stream while other transfers, which do not
// end, fill the budget: only what the user waits for is admitted. Both kinds of streams must not
// wait for anything else, and end with no bytes in flight.
func TestStreamsTakeBesideAFullBudget(t *testing.T) {
	for _, queued := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(1, 1))
		from := newStored(t, vfs.OS(), rng, 0, 40*page, page)
		run := Run{From: from, Size: 40 * page}
		if !queued {
			run.From = ReaderFunc(from.ReadAt)
		}
		scheduler := NewScheduler()
		s := newScheduledStream(t, scheduler, 2, alignedRing(page, 8, 2*page), Sequence{Body: []Run{run}})
		others := admitted(t, scheduler, Awaited, leastDepth)
		late := &writeWait{ready: make(chan struct{}, 1), class: Streamed, bytes: leastDepth}
		for pass := range 3 {
			s.Begin(0)
			for off := int64(0); off < run.Size; off += page {
				_, err := s.Take(t.Context(), 0, off, page, page, page)
				require.NoError(t, err)
			}
			s.Finish()
			if pass == 1 { // a write that has moved up waits too
				scheduler.mu.Lock()
				scheduler.writers = append(scheduler.writers, late)
				scheduler.mu.Unlock()
			}
		}
		s.Begin(0)
		s.Reconfigure(s.ring, s.seq)
		s.Close()
		scheduler.Done(others)
		<-late.ready
		scheduler.Done(late.grant)
		require.Zero(t, scheduler.total, "queued: %v", queued)
		require.Zero(t, scheduler.inFlight)
		require.Empty(t, scheduler.clients)
		require.Positive(t, scheduler.Stats()[Awaited].MovedUp)
	}
}

// TestWriterBesideAnIdleStream writes while a stream has read ahead and nobody takes: the writer
// collects the completed reads itself.
func TestWriterBesideAnIdleStream(t *testing.T) {
	from := newStored(t, vfs.OS(), rand.New(rand.NewPCG(1, 1)), 0, 1024*page, page)
	scheduler := NewScheduler()
	s := newScheduledStream(t, scheduler, 2, alignedRing(256*page, 4, page), Sequence{Body: []Run{{From: from, Size: 1024 * page}}})
	w := &Writer{Scheduler: scheduler}
	written := 0
	w.Start(func(write WriteFunc) error {
		for range 4 {
			err := write(writerFunc(func(p []byte, _ int64) (int, error) {
				written++
				return len(p), nil
			}), make([]byte, 1<<18), 0)
			if err != nil {
				return err
			}
		}
		return nil
	}, Deadline{})
	require.NoError(t, <-w.done)
	require.Equal(t, 4, written)
	w.Close()
	s.Close()
	require.Zero(t, scheduler.total)
}

// TestBatchesAreCounted reads a batch, and one that fails, with a scheduler.
func TestBatchesAreCounted(t *testing.T) {
	for _, queued := range []bool{false, true} {
		from := newStored(t, vfs.OS(), rand.New(rand.NewPCG(1, 1)), 0, 8*page, page)
		scheduler := NewScheduler()
		b := &Batch{Scheduler: scheduler, Readers: 2}
		memory := vfs.AlignDirect(make([]byte, 9*page))
		for _, off := range []int64{0, 6 * page} { // the second one ends too early
			if queued {
				b.Add(from.file, off, memory[:3*page])
			} else {
				b.Add(ReaderFunc(from.file.ReadAt), off, memory[:3*page])
			}
			require.Equal(t, off > 0, b.Wait(t.Context()) != nil)
			require.Zero(t, scheduler.total)
		}
		require.EqualValues(t, 6*page, scheduler.Stats()[Awaited].Bytes)
		b.Close()
	}
}
