package vfs

// batchDetector notices how a device tells that reads have ended: of each when it has, or of all
// that are under way at once, when it has nothing left to do. Some virtual disks are of
// the second kind: whatever is asked of them while they read delays the news of what
// has ended long before.
type batchDetector struct {
	current  int   // of the last lot, which is what is asked for at once
	inFlight []int // [depth] how many reads of a lot are under way, by its number
	score    int   // how often they ended together, less how often they did not, of late
}

const (
	// maxScore bounds lots.seen, so that a few reads change it.
	maxScore = 3
	// minBatch is how many reads of one lot hardly end at the same time by chance.
	minBatch = 4
)

func newBatchDetector(depth int) batchDetector { return batchDetector{inFlight: make([]int, depth)} }

// beginBatch begins a lot.
func (l *batchDetector) beginBatch() { l.current = (l.current + 1) % len(l.inFlight) }

// submitted counts a read of the present lot and returns which that is.
func (l *batchDetector) submitted() int {
	l.inFlight[l.current]++
	return l.current
}

// completed counts reads of some lots of which the system tells at once. alone: somebody
// waited for the first of them, and nothing else is under way.
func (l *batchDetector) completed(of []int, alone bool) {
	several := len(of) >= minBatch
	for _, lot := range of {
		l.inFlight[lot]--
		several = several || lot != of[0]
	}
	for _, lot := range of {
		if l.inFlight[lot] > 0 {
			l.score = max(l.score-1, -maxScore)
			return
		}
	}
	if several && alone {
		l.score = min(l.score+1, maxScore)
	}
}

// batched reports whether reads that are under way end at once.
func (l *batchDetector) batched() bool { return l.score > 0 }
