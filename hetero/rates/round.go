package rates

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// RoundReads is the number of reads of a measured round: about as many runs of neighbours as a layer
// picks besides the pages that are kept from earlier tokens.
const RoundReads = 5

// Round measures rounds of scattered reads for about the given time: RoundReads reads of a number of
// bytes at once, and the next ones when all have ended, as attention reads the pages that a layer
// picks. It returns the median time of a round. Reads of from should bypass the page cache.
func Round(budget *tiering.Budget, from io.ReaderAt, size int64, bytes int, during time.Duration) (time.Duration, error) {
	bytes = vfs.DirectSize(bytes)
	places := size / int64(max(1, bytes))
	if bytes < 1 || places < 1 {
		return 0, fmt.Errorf("rates: %d bytes are too few to measure reads of %d", size, bytes)
	}
	frame, err := tiering.AllocForReads(budget, tiering.KVFrames, RoundReads*bytes)
	if err != nil {
		return 0, err
	}
	defer frame.Free()
	at := spread(places)
	r := flashBench{
		from:  from,
		place: func(k int64) int64 { return at(k) * int64(bytes) },
		slot:  func(k int64) []byte { return frame.Bytes()[int(k)%RoundReads*bytes:][:bytes] },
	}
	round := r.roundOfThreads
	if file, ok := from.(vfs.File); ok && vfs.Queueable(file) {
		if queue := vfs.NewReadQueue(RoundReads); queue != nil {
			defer queue.Close()
			round = func(first int64) error { return r.queuedRound(queue, file, first) }
		}
	}
	threadpool.ReserveForReaders(RoundReads)
	var times []time.Duration
	for start, first := time.Now(), int64(0); len(times) == 0 || time.Since(start) < during; first += RoundReads {
		began := time.Now()
		if err := round(first); err != nil {
			return 0, err
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// roundOfThreads makes the reads of a round from read first on, each on a goroutine.
func (r *flashBench) roundOfThreads(first int64) error {
	var errs [RoundReads]error
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = r.from.ReadAt(r.slot(first+int64(i)), r.place(first+int64(i))) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// queuedRound makes the reads of a round through the system's read queue.
func (r *flashBench) queuedRound(queue *vfs.ReadQueue, file vfs.File, first int64) error {
	for k := first; k < first+RoundReads; k++ {
		queue.Add(file, r.slot(k), r.place(k), int(k-first))
	}
	queue.Submit()
	for done := 0; done < RoundReads; {
		tag, n, ok := queue.Next(time.Second)
		if !ok {
			continue
		}
		done++
		if _, err := r.complete(first+int64(tag), n); err != nil {
			return err
		}
	}
	return nil
}
