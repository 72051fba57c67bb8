package rates

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmrun/llmrun/tiering"
)

// ringPieces is about how many pieces the ring has that weights stream through.
// Reading into the same few again and again would be faster: they stay in caches.
const ringPieces = 32

// windowPieces is how many pieces in a row are read before the next place in the
// file, as when the rest of a layer is read and then that of the next.
const windowPieces int64 = 16

// spread returns the places at which windows of a file are read: all of them, in
// an order in which any number of them in a row lies all over the file. The start
// of a file says little about it: what was read lately may be in some cache below.
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

// Flash returns how fast a file of so many bytes is read in pieces, several at
// a time, during about the given time. The file should read past the page
// cache: what is measured is what from gives. Pieces are aligned to their size.
func Flash(from io.ReaderAt, size int64, piece int, during time.Duration) (gbs float64, err error) {
	pieces := size / int64(max(1, piece))
	if piece < 1 || pieces < 1 {
		return 0, fmt.Errorf("rates: %d bytes are too few to measure reads of %d", size, piece)
	}
	frame, err := tiering.Alloc(tiering.New(0), tiering.Ring, ringPieces*piece)
	if err != nil {
		return 0, err
	}
	defer frame.Free()
	window := min(windowPieces, pieces)
	at := spread(pieces / window)
	var next, read atomic.Int64
	errs := make([]error, tiering.StreamReads)
	var all sync.WaitGroup
	start := time.Now()
	for i := range errs {
		all.Go(func() {
			for time.Since(start) < during && errs[i] == nil {
				k := next.Add(1) - 1
				off := (at(k/window)*window + k%window) * int64(piece)
				var n int
				n, errs[i] = from.ReadAt(frame.Bytes()[int(k%ringPieces)*piece:][:piece], off)
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
