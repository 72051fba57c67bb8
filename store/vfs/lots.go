package vfs

// lots notices how a device tells that reads have ended: of each when it has, or of all
// that are under way at once, when it has nothing left to do. Some virtual disks are of
// the second kind: whatever is asked of them while they read delays the news of what
// has ended long before.
type lots struct {
	number int   // of the last lot, which is what is asked for at once
	left   []int // [depth] how many reads of a lot are under way, by its number
	seen   int   // how often they ended together, less how often they did not, of late
}

const (
	// seenMost bounds lots.seen, so that a few reads change it.
	seenMost = 3
	// lotLeast is how many reads of one lot hardly end at the same time by chance.
	lotLeast = 4
)

func newLots(depth int) lots { return lots{left: make([]int, depth)} }

// next begins a lot.
func (l *lots) next() { l.number = (l.number + 1) % len(l.left) }

// asked counts a read of the present lot and returns which that is.
func (l *lots) asked() int {
	l.left[l.number]++
	return l.number
}

// ended counts reads of some lots of which the system tells at once. alone: somebody
// waited for the first of them, and nothing else is under way.
func (l *lots) ended(of []int, alone bool) {
	several := len(of) >= lotLeast
	for _, lot := range of {
		l.left[lot]--
		several = several || lot != of[0]
	}
	for _, lot := range of {
		if l.left[lot] > 0 {
			l.seen = max(l.seen-1, -seenMost)
			return
		}
	}
	if several && alone {
		l.seen = min(l.seen+1, seenMost)
	}
}

// together reports whether reads that are under way end at once.
func (l *lots) together() bool { return l.seen > 0 }
