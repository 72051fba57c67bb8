package prefetch

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

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
