package rates

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// ringPieces is about the number of pieces in the ring for streamed weights. A smaller
// ring would stay in caches, and the measurement would be too fast.
const ringPieces = 32

// windowPieces is the number of consecutive pieces that a measurement reads before it
// jumps to another window of the file. A weight stream jumps in the same way from the
// streamed part of one layer to that of the next.
const windowPieces int64 = 16

// spread returns a permutation of the windows of a file in which any run of
// consecutive windows covers the whole file. The start of a file alone is not
// representative: a cache of the device may hold recently read data.
func spread(windows int64) func(i int64) int64 {
	step := max(1, windows*5/8) // about the golden section, which spreads best
	for gcd(step, windows) != 1 {
		step++
	}
	return func(i int64) int64 { return i * step % windows }
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Flash reads a file of size bytes in pieces, several at a time, for about the given
// time, and returns the rate in GB/s. Reads of from should bypass the page cache;
// otherwise Flash measures the cache. Pieces are aligned to their size. budget grants the ring,
// a smaller one if need be.
func Flash(budget *tiering.Budget, from io.ReaderAt, size int64, piece int, during time.Duration) (gbs float64, err error) {
	pieces := size / int64(max(1, piece))
	if piece < 1 || pieces < 1 {
		return 0, fmt.Errorf("rates: %d bytes are too few to measure reads of %d", size, piece)
	}
	ring := int64(ringPieces)
	frame, err := tiering.AllocForReads(budget, tiering.Ring, int(ring)*piece)
	for ; errors.Is(err, tiering.ErrBudget) && ring > 2*tiering.StreamReads; ring /= 2 {
		frame, err = tiering.AllocForReads(budget, tiering.Ring, int(ring/2)*piece)
	}
	if err != nil {
		return 0, err
	}
	defer frame.Free()
	window := min(windowPieces, pieces)
	at := spread(pieces / window)
	r := flashBench{
		from: from, during: during,
		place: func(k int64) int64 { return (at(k/window)*window + k%window) * int64(piece) },
		slot:  func(k int64) []byte { return frame.Bytes()[int(k%ring)*piece:][:piece] },
	}
	file, ok := from.(vfs.File)
	if ok && piece%vfs.DirectAlign == 0 && vfs.Queueable(file) {
		if queue := vfs.NewReadQueue(tiering.StreamReads); queue != nil {
			defer queue.Close()
			return r.queued(queue, file)
		}
	}
	return r.threaded()
}

// flashBench describes the reads of a measurement.
type flashBench struct {
	from   io.ReaderAt
	during time.Duration
	place  func(k int64) int64  // file offset of the k-th piece
	slot   func(k int64) []byte // its memory in the ring
}

// threaded measures reads by several goroutines.
func (r *flashBench) threaded() (gbs float64, err error) {
	threadpool.ReserveForReaders(tiering.StreamReads)
	var next, read atomic.Int64
	errs := make([]error, tiering.StreamReads)
	var all sync.WaitGroup
	start := time.Now()
	for i := range errs {
		all.Go(func() {
			for time.Since(start) < r.during && errs[i] == nil {
				k := next.Add(1) - 1
				var n int
				n, errs[i] = r.from.ReadAt(r.slot(k), r.place(k))
				read.Add(int64(n))
			}
		})
	}
	all.Wait()
	return speed(read.Load(), start), cmp.Or(errs...)
}

// queued measures reads through the system's read queue, which a weight stream uses if
// it is available.
func (r *flashBench) queued(queue *vfs.ReadQueue, file vfs.File) (gbs float64, err error) {
	var next, completed, read int64
	start := time.Now()
	for on := true; on || completed < next; on = time.Since(start) < r.during {
		for on && next-completed < tiering.StreamReads {
			queue.Add(file, r.slot(next), r.place(next), int(next))
			next++
		}
		queue.Submit()
		tag, n, ok := queue.Next(time.Second)
		if !ok {
			continue
		}
		completed++
		if n, err = r.complete(int64(tag), n); err != nil {
			return 0, err
		}
		read += int64(n)
	}
	return speed(read, start), nil
}

// complete repeats a read of the queue that has read only n bytes.
func (r *flashBench) complete(k int64, n int) (int, error) {
	if n >= len(r.slot(k)) {
		return n, nil
	}
	return r.from.ReadAt(r.slot(k), r.place(k))
}

func speed(bytes int64, since time.Time) float64 {
	return float64(bytes) / max(time.Since(since), 1).Seconds() / 1e9
}
