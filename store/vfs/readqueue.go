package vfs

import (
	"os"
	"slices"
	"time"
)

// ReadQueue submits asynchronous reads to the operating system, so that no thread blocks in
// a read. A thread that has blocked in a read preempts another thread when the read
// completes. On a machine with few cores it preempts a thread that computes a matmul, and
// the other threads of the matmul wait.
//
// Add queues reads, Submit passes them to the system, Next returns completed ones.
//
// A ReadQueue must be used by one goroutine at a time. The destination memory of a read must
// not move or be freed before the read completes. Close waits for all reads.
type ReadQueue struct {
	system      asyncReads
	depth       int
	pending     []pendingRead // [depth] slots
	idle        []int         // slots without a read
	unsubmitted []int         // slots of reads that Submit has not passed to the system yet
	completed   []completedRead
	detector    batchDetector
	batches     []int               // [depth] scratch memory for collectCompleted
	pause       func(time.Duration) // waits for a throttled device; tests on a fake clock use time.Sleep
}

// pendingRead is a read between Add and Next.
type pendingRead struct {
	fd        int
	p         []byte
	off       int64
	tag       int
	batch     int
	notBefore time.Time // a throttled device completes the read at this time; zero: no limit
}

// completedRead is a read that the system has completed and that Next has not returned. On a
// throttled device Next returns it at its time notBefore.
type completedRead struct {
	slot int
	n    int // bytes; fewer than requested after an error or at the end of the file
}

// asyncReads is what a ReadQueue asks of the system: a systemQueue, or a script in tests.
type asyncReads interface {
	// submit passes q.unsubmitted to the system and returns how many reads it accepted.
	submit(q *ReadQueue) int
	// collectCompleted appends completed reads to q.completed. If there is none, it waits up
	// to wait for one.
	collectCompleted(q *ReadQueue, wait time.Duration)
	close()
}

// NewReadQueue returns a queue for up to depth reads in flight. It returns nil if the system
// has no asynchronous reads or does not let this process use them.
func NewReadQueue(depth int) *ReadQueue {
	system := &systemQueue{}
	if !system.open(depth) {
		return nil
	}
	return newReadQueue(depth, system)
}

func newReadQueue(depth int, system asyncReads) *ReadQueue {
	q := &ReadQueue{
		system: system, depth: depth, pending: make([]pendingRead, depth), unsubmitted: make([]int, 0, depth), completed: make([]completedRead, 0, depth),
		detector: newBatchDetector(depth), batches: make([]int, 0, depth), pause: sleep,
	}
	for i := range depth {
		q.idle = append(q.idle, i)
	}
	return q
}

// queueable is implemented by files that a ReadQueue can read, and by wrappers of files.
type queueable interface {
	// directHandle returns the handle for direct reads, or nil.
	directHandle() *os.File
	// notBefore returns the earliest completion time of a read of n bytes that starts now;
	// zero means no limit.
	notBefore(n int) time.Time
}

// Queueable reports whether a ReadQueue can read f. Memory, offset and length of such reads
// must be multiples of [DirectAlign].
func Queueable(f File) bool {
	q, ok := f.(queueable)
	return ok && q.directHandle() != nil
}

// Room returns how many more reads the queue accepts.
func (q *ReadQueue) Room() int { return len(q.idle) }

// CompletesInBatches reports whether the device reports completed reads only when all reads
// in flight are done. Submitting more reads to such a device delays those in flight.
func (q *ReadQueue) CompletesInBatches() bool { return q.detector.batched() }

// HasInFlight reports whether reads were in flight at the last call of Next.
func (q *ReadQueue) HasInFlight() bool { return q.inFlight() > 0 }

// inFlight returns the number of reads that the system has not completed.
func (q *ReadQueue) inFlight() int {
	return q.depth - len(q.idle) - len(q.completed) - len(q.unsubmitted)
}

// Add queues a read of f, which must be Queueable, for the next Submit. Next returns tag.
func (q *ReadQueue) Add(f File, p []byte, off int64, tag int) {
	slot := q.idle[len(q.idle)-1]
	q.idle = q.idle[:len(q.idle)-1]
	source := f.(queueable)
	q.pending[slot] = pendingRead{p: p, off: off, tag: tag, notBefore: source.notBefore(len(p))}
	handle := source.directHandle()
	if handle == nil { // the file system rejected direct reads since Queueable
		q.completed = append(q.completed, completedRead{slot, 0})
		return
	}
	q.pending[slot].fd = int(handle.Fd())
	q.unsubmitted = append(q.unsubmitted, slot)
}

// Submit passes the added reads to the system. A read that the system rejects completes at
// once with 0 bytes.
func (q *ReadQueue) Submit() {
	q.detector.beginBatch()
	for len(q.unsubmitted) > 0 {
		n := q.system.submit(q)
		for _, slot := range q.unsubmitted[:n] {
			q.pending[slot].batch = q.detector.submitted()
		}
		if n == 0 { // the system rejects the first read of the list
			q.completed = append(q.completed, completedRead{q.unsubmitted[0], 0})
			n = 1
		}
		q.unsubmitted = slices.Delete(q.unsubmitted, 0, n)
	}
}

// Next returns the tag of a completed read and the number of bytes it read. A failed read
// returns fewer bytes than requested; reading the range with ReadAt yields the error. ok is
// false if no read completes within wait or none is in flight.
func (q *ReadQueue) Next(wait time.Duration) (tag, n int, ok bool) {
	start := time.Now()
	for now := start; ; now = time.Now() {
		remaining := wait - now.Sub(start)
		at, due := q.earliest()
		if at < 0 {
			q.collectCompleted(max(0, remaining))
			at, due = q.earliest()
		} else if due.After(now) {
			q.collectCompleted(0) // another read may be due earlier
			at, due = q.earliest()
		}
		switch {
		case at >= 0 && !due.After(now):
			done := q.completed[at]
			q.completed = slices.Delete(q.completed, at, at+1)
			q.idle = append(q.idle, done.slot)
			read := &q.pending[done.slot]
			read.p = nil
			return read.tag, done.n, true
		case remaining <= 0 || at < 0 && q.inFlight() == 0:
			return 0, 0, false
		case at >= 0:
			q.pause(min(remaining, due.Sub(now)))
		}
	}
}

// collectCompleted moves reads that the system has completed to q.completed. If there is
// none, it waits up to wait for one.
func (q *ReadQueue) collectCompleted(wait time.Duration) {
	before := len(q.completed)
	q.system.collectCompleted(q, 0)
	waited := len(q.completed) == before && wait > 0
	if waited {
		q.system.collectCompleted(q, wait)
	}
	q.batches = q.batches[:0]
	for _, c := range q.completed[before:] {
		q.batches = append(q.batches, q.pending[c.slot].batch)
	}
	q.detector.completed(q.batches, waited && q.inFlight() == 0)
}

// earliest returns the index in q.completed of the read that is due first, or -1.
func (q *ReadQueue) earliest() (at int, due time.Time) {
	at = -1
	for i := range q.completed {
		if t := q.pending[q.completed[i].slot].notBefore; at < 0 || t.Before(due) {
			at, due = i, t
		}
	}
	return at, due
}

// Drain waits for all reads and discards them.
func (q *ReadQueue) Drain() {
	q.Submit()
	for len(q.idle) < q.depth {
		for i := range q.completed {
			q.idle = append(q.idle, q.completed[i].slot)
		}
		q.completed = q.completed[:0]
		if len(q.idle) < q.depth {
			q.collectCompleted(time.Second)
		}
	}
}

// Close waits for all reads and releases the system's resources.
func (q *ReadQueue) Close() {
	q.Drain()
	q.system.close()
}
