package prefetch

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/llmrun/llmrun/store/vfs"
)

// Where the operating system reads by itself, a stream needs no goroutines: who uses
// it asks for the pieces that there is room for each time that it takes some, and
// finds in memory which have landed. What has landed is checked when it is taken, by
// all threads of the user, which would otherwise wait for one another.

// Stored is a source whose bytes lie in a file as they are read, so that the system
// may be asked for them. A [vfs.File] is one itself, without Check.
type Stored interface {
	io.ReaderAt
	// Stored returns the file that n bytes at off lie in, and where. A nil file: they
	// cannot be read and checked as they are.
	Stored(off, n int64) (file vfs.File, at int64)
	// Check says whether p, a number of whole [Stored.Unit], is what lies at off.
	Check(p []byte, off int64) error
	// Unit returns what Check is given multiples of, but for the end of the source.
	Unit() int
}

// maxQueued is how many reads a stream has under way in a queue of the system.
const maxQueued = 64

// checkBytes is about how much a thread checks at a time.
const checkBytes = 256 << 10

// queueState is what a stream has for it.
type queueState struct {
	on          bool // the present sequence is read so
	queue       *vfs.ReadQueue
	unavailable bool  // the system has none, or one that brings less than is there
	lastStall   int64 // the last pass in which who takes had to wait
	checkPart   func(part, worker int)

	// What is being checked: whole pieces of a run, in parts of each bytes.
	run       *Run
	off       int64 // of the first in the run
	end       int64 // of the last
	partBytes int64
	failed    error
}

// canQueue reports whether the system can read the whole sequence by itself. The
// lock is held.
func (s *Stream) canQueue() bool {
	piece := int64(s.ring.Piece)
	if s.closed || s.queued.unavailable || piece%vfs.DirectAlign != 0 || len(vfs.AlignDirect(s.ring.Memory)) != len(s.ring.Memory) {
		return false
	}
	for _, runs := range [][]Run{s.seq.Body, s.seq.Tail} {
		for i := range runs {
			if r := &runs[i]; r.Size > 0 && !r.queueable(piece) {
				return false
			}
		}
	}
	if s.queued.queue == nil {
		s.queued.queue = vfs.NewReadQueue(maxQueued)
		s.queued.unavailable = s.queued.queue == nil
	}
	return !s.queued.unavailable
}

// queueable reports whether all pieces of a run can be read from its file.
func (r *Run) queueable(piece int64) bool {
	for off := r.Off; off < r.Off+r.Size; off += piece {
		file, at := r.stored(off, min(piece, r.Off+r.Size-off))
		if file == nil || !vfs.Queueable(file) || at%vfs.DirectAlign != 0 {
			return false
		}
	}
	return true
}

// stored is Stored of the run's source.
func (r *Run) stored(off, n int64) (vfs.File, int64) {
	switch from := r.From.(type) {
	case Stored:
		return from.Stored(off, n)
	case vfs.File:
		return from, off
	}
	return nil, 0
}

// submitFraction: to ask costs about as much for one piece as for several, so who takes asks
// for nothing until one part in submitFraction of the ring is free. Where it has had to wait
// in this pass or the one before, flash is what everything waits for, and is not to
// be idle: then it asks for each piece at once.
const submitFraction = 2

// minHalves is the least pieces of a ring that is read in halves. Of one piece the
// queue cannot see that it ended on its own.
const minHalves = 4

// submit has the system read the pieces that there is room for. The lock is held.
//
// Of a device that tells of all reads together no more than half of the ring is asked
// for, and nothing while it reads: so it always has one half to read while the other is
// used.
func (s *Stream) submit() {
	q, slots := s.queued.queue, int64(len(s.slots))
	if free := slots - (s.next - s.released); !s.flashBound() && free*submitFraction < slots {
		return
	}
	most := slots
	if slots >= minHalves && q.CompletesInBatches() {
		if q.HasInFlight() {
			return
		}
		most = slots / 2
	}
	for ; most > 0 && q.Room() > 0 && s.hasFree() && s.seekNext(); most-- {
		at, dst := s.claim()
		p := &s.slots[at]
		file, place := p.run.stored(p.off, int64(len(dst)))
		q.Add(file, dst[:vfs.DirectSize(len(dst))], place, at)
	}
	q.Submit()
}

// FlashBound reports whether who takes has had to wait in this pass or the one before. It
// may be called from any goroutine.
func (s *Stream) FlashBound() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flashBound()
}

// flashBound is Pressed. The lock is held.
func (s *Stream) flashBound() bool { return s.currentPass <= s.queued.lastStall+1 }

// Submit has the system read the pieces that there is room for since bytes of a run of
// keys and values were taken. It takes the system a while to be told, so Take leaves it
// to who uses them, on a thread of several. Of other runs Take sees to it, while what it
// gives is checked. It may be called from any goroutine.
func (s *Stream) Submit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queued.on && !s.closed {
		s.submit()
	}
}

// collectCompleted notes which pieces have landed. It waits for one, but not for longer than
// wait. The lock is held.
func (s *Stream) collectCompleted(wait time.Duration) {
	for !s.closed {
		at, n, ok := s.queued.queue.Next(wait)
		if !ok {
			return
		}
		wait = 0
		p := &s.slots[at]
		s.inFlight--
		_, stored := p.run.From.(Stored)
		p.reading, p.completed, p.checked = false, true, !stored
		if n < p.bytes {
			p.err = errShort
		}
		s.stats[p.run.Kind].Bytes += int64(min(n, p.bytes))
	}
}

// cancelEvery is how often who waits for a read looks whether it still should.
const cancelEvery = 10 * time.Millisecond

// awaitQueued waits until a piece has landed, or for a while.
func (s *Stream) awaitQueued(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.queued.lastStall = s.currentPass
	s.submit()
	if s.inFlight == 0 { // what is waited for may not be read yet
		s.mu.Unlock()
		time.Sleep(cancelEvery / 10)
		s.mu.Lock()
	}
	s.collectCompleted(cancelEvery)
	if s.closed {
		return ErrClosed
	}
	s.submit() // before what has landed is used
	return nil
}

// errShort marks a piece of which the system brought less than was asked for.
var errShort = errors.New("prefetch: short read")

// retryShort reads the first short piece at an offset of the present run once more, in the
// way that says what is wrong. Where nothing is, the queue is: the next pass does
// without. The lock is not held: nobody else looks at a piece that has landed.
func (s *Stream) retryShort(ctx context.Context, off int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	piece := off / int64(s.ring.Piece)
	for !errors.Is(s.slotOf(piece).err, errShort) {
		piece++
	}
	p := s.slotOf(piece)
	n, err := readWhole(p.run.From, s.ring.Memory[s.ringOffset(piece*int64(s.ring.Piece)):][:p.bytes], p.off)
	s.mu.Lock()
	defer s.mu.Unlock()
	p.err, p.checked = err, true
	s.stats[p.run.Kind].Bytes += int64(n)
	s.queued.unavailable = s.queued.unavailable || err == nil
	return nil
}

// check compares what was taken of run i with its sums: n bytes at off, all of which
// have landed. Pieces are checked as wholes. Meanwhile more is asked for.
func (s *Stream) check(i int, off, n int64) error {
	c, piece := &s.queued, int64(s.ring.Piece)
	c.run = s.seq.run(i)
	from, ok := c.run.From.(Stored)
	if !ok {
		if c.run.Kind != KV {
			s.Submit()
		}
		return nil
	}
	first, last := off/piece, (off+n-1)/piece
	for first <= last && s.slotOf(first).checked {
		first++
	}
	if first > last {
		s.Submit()
		return nil
	}
	c.off, c.end = first*piece, min((last+1)*piece, c.run.Size)
	unit := int64(from.Unit())
	c.partBytes = piece
	if piece%checkBytes == 0 && checkBytes%unit == 0 {
		c.partBytes = checkBytes
	}
	c.failed = nil
	if parts := 1 + int((c.end-c.off+c.partBytes-1)/c.partBytes); s.user.RunParts != nil {
		s.user.RunParts(parts, c.checkPart)
	} else {
		for i := range parts {
			s.checkPart(i, 0)
		}
	}
	if c.failed != nil {
		return c.failed
	}
	for ; first <= last; first++ {
		s.slotOf(first).checked = true
	}
	return nil
}

// slotOf returns the slot of a piece of the present run.
func (s *Stream) slotOf(piece int64) *slot {
	return &s.slots[(s.position.piece+piece)%int64(len(s.slots))]
}

// checkPart checks a part of what is being checked. The first part is to ask for more.
func (s *Stream) checkPart(part, _ int) {
	if part == 0 {
		s.Submit()
		return
	}
	c := &s.queued
	off := c.off + int64(part-1)*c.partBytes
	p := s.ring.Memory[s.ringOffset(off):][:min(c.partBytes, c.end-off)]
	if err := c.run.From.(Stored).Check(p, c.run.Off+off); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.failed == nil {
			c.failed = err
		}
	}
}

// close waits for all reads and ends the queue.
func (c *queueState) close() {
	if c.queue != nil {
		c.queue.Close()
		c.queue = nil
	}
}
