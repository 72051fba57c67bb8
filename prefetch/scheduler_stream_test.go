package prefetch

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

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
