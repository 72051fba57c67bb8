package rates

import (
	"cmp"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// ringPieces is about the size of the ring that weights stream through. Reading
// into fewer pieces would be faster than in reality, because they stay in caches.
const ringPieces = 32

// windowPieces is how many consecutive pieces are read before a jump to another
// window of the file, as when the rest of one layer is read and then the next
// layer.
const windowPieces int64 = 16

// spread returns a permutation of the windows of a file in which any run of
// consecutive windows covers the whole file. The start of a file alone is not
// representative: recently read data may be in a cache below.
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

// Flash returns the rate in GB/s at which a file of size bytes is read in pieces,
// several at a time, measured for about the given time. The file should bypass the
// page cache, because Flash measures whatever from delivers. Pieces are aligned to
// their size.
func Flash(from io.ReaderAt, size int64, piece int, during time.Duration) (gbs float64, err error) {
	pieces := size / int64(max(1, piece))
	if piece < 1 || pieces < 1 {
		return 0, fmt.Errorf("rates: %d bytes are too few to measure reads of %d", size, piece)
	}
	frame, err := tiering.AllocForReads(tiering.New(0), tiering.Ring, ringPieces*piece)
	if err != nil {
		return 0, err
	}
	defer frame.Free()
	window := min(windowPieces, pieces)
	at := spread(pieces / window)
	r := flashBench{
		from: from, during: during,
		place: func(k int64) int64 { return (at(k/window)*window + k%window) * int64(piece) },
		slot:  func(k int64) []byte { return frame.Bytes()[int(k%ringPieces)*piece:][:piece] },
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

// threaded reads with several goroutines.
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

// queued reads through the system's read queue, as a weight stream does where
// possible.
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
		if k := int64(tag); n < len(r.slot(k)) {
			if n, err = r.from.ReadAt(r.slot(k), r.place(k)); err != nil {
				return 0, err
			}
		}
		read += int64(n)
	}
	return speed(read, start), nil
}

func speed(bytes int64, since time.Time) float64 {
	return float64(bytes) / max(time.Since(since), 1).Seconds() / 1e9
}
