package vfs

// batchDetector detects devices that report completed reads in batches. Most devices report
// each read as soon as it is done. Some virtual disks report all reads together when they
// become idle: reads that are submitted meanwhile delay the report of finished reads.
type batchDetector struct {
	current  int   // index of the batch that is being submitted
	inFlight []int // [depth] reads in flight of each batch, a ring
	score    int   // recent batched completions minus separate ones, within ±maxScore
}

const (
	// maxScore bounds batchDetector.score, so that a few observations can change the answer.
	maxScore = 3
	// minBatch is the number of reads of one batch that are unlikely to complete at the same
	// time by chance.
	minBatch = 4
)

func newBatchDetector(depth int) batchDetector {
	return batchDetector{inFlight: make([]int, depth)}
}

// beginBatch starts a new batch.
func (d *batchDetector) beginBatch() { d.current = (d.current + 1) % len(d.inFlight) }

// submitted counts a read of the current batch and returns the index of the batch.
func (d *batchDetector) submitted() int {
	d.inFlight[d.current]++
	return d.current
}

// completed processes reads that the system reported in one call. batches holds the batch of
// each read. idle states that the caller blocked until the first of them completed and that
// no other read is in flight: only then is a report of several reads evidence of batching.
func (d *batchDetector) completed(batches []int, idle bool) {
	several := len(batches) >= minBatch
	for _, batch := range batches {
		d.inFlight[batch]--
		several = several || batch != batches[0]
	}
	for _, batch := range batches {
		if d.inFlight[batch] > 0 {
			d.score = max(d.score-1, -maxScore)
			return
		}
	}
	if several && idle {
		d.score = min(d.score+1, maxScore)
	}
}

// batched reports whether the device reports completed reads in batches.
func (d *batchDetector) batched() bool { return d.score > 0 }
