package vfs

import (
	"os"
	"slices"
	"time"
)

// ReadQueue has the operating system read pieces of files by itself, so that no
// thread waits for any of them. A thread that waits for a read takes a core from
// somebody when the read ends, and with few cores that is one of those that compute:
// the others stand still until it is back.
//
// A ReadQueue is for one goroutine at a time. Memory that is read into must not be
// moved or freed before its read has ended: Close waits for all.
type ReadQueue struct {
	system      systemQueue
	depth       int
	pending     []pendingRead   // [depth] by number
	idle        []int           // numbers without a read
	unsubmitted []int           // numbers of reads that the system was not asked for yet
	completed   []completedRead // reads that the system has done and the device, as slow as it is to be, has not
	detector    batchDetector
	batches     []int // [depth] lots of what the system tells of at once
}

// pendingRead is a read between Add and Next.
type pendingRead struct {
	fd        int
	p         []byte
	off       int64
	tag       int
	batch     int
	notBefore time.Time // before which it has not ended; zero: whenever the system says
}

// completedRead is what the system says of a read.
type completedRead struct {
	number int
	n      int // bytes, less than were asked for after an error or at the end of the file
}

// NewReadQueue returns a queue for so many reads at a time, nil where the system has
// none or a process may not use it.
func NewReadQueue(depth int) *ReadQueue {
	q := &ReadQueue{
		depth: depth, pending: make([]pendingRead, depth), unsubmitted: make([]int, 0, depth), completed: make([]completedRead, 0, depth),
		detector: newBatchDetector(depth), batches: make([]int, 0, depth),
	}
	if !q.system.open(depth) {
		return nil
	}
	for i := range depth {
		q.idle = append(q.idle, i)
	}
	return q
}

// queueable is implemented by files that a ReadQueue can read, or that wrap others.
type queueable interface {
	// directHandle returns what is open for direct reads, nil if nothing is.
	directHandle() *os.File
	// notBefore returns when a read of n bytes that begins now may end; zero: as soon as
	// it does.
	notBefore(n int) time.Time
}

// Queueable reports whether a ReadQueue can read a file, in pieces whose memory,
// place and length are multiples of [DirectAlign].
func Queueable(f File) bool {
	q, ok := f.(queueable)
	return ok && q.directHandle() != nil
}

// Room returns how many more reads there is room for.
func (q *ReadQueue) Room() int { return len(q.idle) }

// CompletesInBatches reports whether the device tells that reads have ended only when all that
// are under way have. Who asks such a device for more delays what it reads already.
func (q *ReadQueue) CompletesInBatches() bool { return q.detector.batched() }

// HasInFlight reports whether the system has not done all reads yet, as far as Next knows.
func (q *ReadQueue) HasInFlight() bool { return q.inFlight() > 0 }

// inFlight returns how many reads the system has not done yet.
func (q *ReadQueue) inFlight() int {
	return q.depth - len(q.idle) - len(q.completed) - len(q.unsubmitted)
}

// Add puts a read of a file that is Queueable on the list for Ask. Next returns its
// tag.
func (q *ReadQueue) Add(f File, p []byte, off int64, tag int) {
	number := q.idle[len(q.idle)-1]
	q.idle = q.idle[:len(q.idle)-1]
	from := f.(queueable)
	q.pending[number] = pendingRead{p: p, off: off, tag: tag, notBefore: from.notBefore(len(p))}
	o := from.directHandle()
	if o == nil { // by now
		q.completed = append(q.completed, completedRead{number, 0})
		return
	}
	q.pending[number].fd = int(o.Fd())
	q.unsubmitted = append(q.unsubmitted, number)
}

// Submit asks the system for what was added. What it refuses ends at once, with no bytes.
func (q *ReadQueue) Submit() {
	q.detector.beginBatch()
	for len(q.unsubmitted) > 0 {
		n := q.system.submit(q)
		for _, number := range q.unsubmitted[:n] {
			q.pending[number].batch = q.detector.submitted()
		}
		if n == 0 { // nothing but the first of them can be the cause
			q.completed = append(q.completed, completedRead{q.unsubmitted[0], 0})
			n = 1
		}
		q.unsubmitted = slices.Delete(q.unsubmitted, 0, n)
	}
}

// Next returns a read that has ended: its tag, and how many bytes it brought, which
// are fewer than were asked for when it failed; reading them in another way says why.
// ok is false if none ends within wait, or none is under way.
func (q *ReadQueue) Next(wait time.Duration) (tag, n int, ok bool) {
	begun := time.Now()
	for now := begun; ; now = time.Now() {
		left := wait - now.Sub(begun)
		at, soonest := q.earliest()
		if at < 0 {
			q.collectCompleted(max(0, left))
			at, soonest = q.earliest()
		} else if soonest.After(now) {
			q.collectCompleted(0) // one may be due before that
			at, soonest = q.earliest()
		}
		switch {
		case at >= 0 && !soonest.After(now):
			number := q.completed[at]
			q.completed = slices.Delete(q.completed, at, at+1)
			q.idle = append(q.idle, number.number)
			read := &q.pending[number.number]
			read.p = nil
			return read.tag, number.n, true
		case left <= 0 || at < 0 && q.inFlight() == 0:
			return 0, 0, false
		case at >= 0:
			time.Sleep(min(left, soonest.Sub(now)))
		}
	}
}

// collectCompleted notes which reads have ended. It waits for one, but not for longer than wait.
func (q *ReadQueue) collectCompleted(wait time.Duration) {
	before := len(q.completed)
	q.system.collectCompleted(q, 0)
	waited := len(q.completed) == before && wait > 0
	if waited {
		q.system.collectCompleted(q, wait)
	}
	q.batches = q.batches[:0]
	for _, e := range q.completed[before:] {
		q.batches = append(q.batches, q.pending[e.number].batch)
	}
	q.detector.completed(q.batches, waited && q.inFlight() == 0)
}

// earliest returns the ended read that is due first, -1 if there is none.
func (q *ReadQueue) earliest() (at int, due time.Time) {
	at = -1
	for i := range q.completed {
		if d := q.pending[q.completed[i].number].notBefore; at < 0 || d.Before(due) {
			at, due = i, d
		}
	}
	return at, due
}

// Drain waits for all reads, of which nobody wants to know.
func (q *ReadQueue) Drain() {
	q.Submit()
	for len(q.idle) < q.depth {
		for i := range q.completed {
			q.idle = append(q.idle, q.completed[i].number)
		}
		q.completed = q.completed[:0]
		if len(q.idle) < q.depth {
			q.collectCompleted(time.Second)
		}
	}
}

// Close waits for all reads and gives the system its memory back.
func (q *ReadQueue) Close() {
	q.Drain()
	q.system.close()
}
