package rates

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmrun/llmrun/tiering"
)

// readers is how many reads are in flight, as when a model is streamed.
const readers = 4

// Flash returns how fast a file of so many bytes is read in pieces, several at
// a time, during about the given time. The file should read past the page
// cache: what is measured is what from gives. Pieces are aligned to their size.
func Flash(from io.ReaderAt, size int64, piece int, during time.Duration) (gbs float64, err error) {
	pieces := size / int64(max(1, piece))
	if piece < 1 || pieces < 1 {
		return 0, fmt.Errorf("rates: %d bytes are too few to measure reads of %d", size, piece)
	}
	frame, err := tiering.Alloc(tiering.New(0), tiering.Ring, readers*piece)
	if err != nil {
		return 0, err
	}
	defer frame.Free()
	var next, read atomic.Int64
	errs := make([]error, readers)
	var all sync.WaitGroup
	start := time.Now()
	for i := range errs {
		memory := frame.Bytes()[i*piece : (i+1)*piece]
		all.Go(func() {
			for time.Since(start) < during && errs[i] == nil {
				off := (next.Add(1) - 1) % pieces * int64(piece)
				var n int
				n, errs[i] = from.ReadAt(memory, off)
				read.Add(int64(n))
			}
		})
	}
	all.Wait()
	took := time.Since(start)
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return float64(read.Load()) / max(took, 1).Seconds() / 1e9, nil
}
