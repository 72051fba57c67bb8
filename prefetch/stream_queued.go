package prefetch

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/llmrun/llmrun/store/vfs"
)

// With the operating system's read queue, a stream needs no goroutines: Take submits reads
// for the free slots and polls the queue for completed ones. Take also verifies the bytes
// that it returns, on all threads of the user, which are idle at that time.

// Stored is a source whose bytes are stored unchanged in a file, so that the operating
// system can read them asynchronously. A [vfs.File] needs no adapter: its bytes have no
// checks.
type Stored interface {
	io.ReaderAt
	// Stored returns the file and the offset that hold n bytes at off. A nil file
	// means that these bytes cannot be read and checked directly.
	Stored(off, n int64) (file vfs.File, at int64)
	// Check verifies that p, a whole number of units, holds the bytes at off.
	Check(p []byte, off int64) error
	// Unit returns the size of a unit. Check receives multiples of it, except at the
	// end of the source.
	Unit() int
}

// maxQueued is the maximum number of reads in flight in the system's read queue.
const maxQueued = 64

// checkBytes is the approximate number of bytes that a thread verifies at a time. Reads of KV
// are small and are decrypted, which takes much longer, so that they are split further.
const (
	checkBytes   = 256 << 10
	checkKVBytes = 64 << 10
)

// queueState is the state of a stream that uses the system's read queue.
type queueState struct {
	on          bool // the current sequence uses the queue
	queue       *vfs.ReadQueue
	unavailable bool  // the system has no queue, or it has returned short reads
	lastStall   int64 // the last pass in which the user waited
	checkPart   func(part, worker int)

	// The check in progress: whole pieces of a run, each in perPiece parts of partBytes.
	run       *Run
	off       int64 // offset of the first piece in the run
	end       int64 // end of the last piece
	partBytes int64
	perPiece  int64
	failed    error
}

// canQueue reports whether the system's read queue can read the whole sequence. The
// caller holds the lock.
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

// queueable reports whether the queue can read all pieces of a run from its file.
func (r *Run) queueable(piece int64) bool {
	for off := r.Off; off < r.Off+r.Size; off += piece {
		file, at := r.stored(off, min(piece, r.Off+r.Size-off))
		if file == nil || !vfs.Queueable(file) || at%vfs.DirectAlign != 0 {
			return false
		}
	}
	return true
}

// stored returns the file and the offset that hold n bytes at off of the run's
// source, see [Stored].
func (r *Run) stored(off, n int64) (vfs.File, int64) {
	switch from := r.From.(type) {
	case Stored:
		return from.Stored(off, n)
	case vfs.File:
		return from, off
	}
	return nil, 0
}

// Submitting one read costs about as much as submitting several. Therefore the user
// submits reads only when one part in submitFraction of the ring is free. If it has
// waited in this pass or the previous one, the stream is flash-bound and submits each
// piece at once to keep the device busy.
const submitFraction = 2

// minHalves is the minimum number of pieces in a ring that submit reads in halves. The
// half of a smaller ring is a single piece, whose completion gives no evidence about
// batching.
const minHalves = 4

// submit submits reads of the pieces for which the ring has room. The caller holds
// the lock.
//
// Some devices report the completion of all reads together. For these, submit
// requests at most half of the ring, and nothing while a read is in flight, so that
// the device reads one half while the other half is in use.
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
		grant, ok := s.admit()
		if !ok {
			break
		}
		at, dst := s.claim(grant)
		p := &s.slots[at]
		file, place := p.run.stored(p.off, int64(len(dst)))
		q.Add(file, dst[:vfs.DirectSize(len(dst))], place, at)
	}
	q.Submit()
}

// FlashBound reports whether the user had to wait for reads in this pass or the
// previous one. Any goroutine may call it.
func (s *Stream) FlashBound() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flashBound()
}

// flashBound is FlashBound; the caller holds the lock.
func (s *Stream) flashBound() bool { return s.currentPass <= s.queued.lastStall+1 }

// Submit submits reads of the pieces for which the ring has room. The system call
// takes a while; therefore Take does not submit for runs of KV and leaves it to one
// of the attention threads. For other runs, Take submits while it verifies. Any
// goroutine may call Submit.
func (s *Stream) Submit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queued.on && !s.closed {
		s.submit()
	}
}

// collectCompleted records the completed reads. It waits up to wait for the first
// one. The caller holds the lock.
func (s *Stream) collectCompleted(wait time.Duration) {
	for !s.closed {
		at, n, ok := s.queued.queue.Next(wait)
		if !ok {
			return
		}
		wait = 0
		p := &s.slots[at]
		s.inFlight--
		s.user.Scheduler.Done(p.grant)
		_, stored := p.run.From.(Stored)
		p.reading, p.completed, p.checked = false, true, !stored
		if n < p.bytes {
			p.err = errShort
		}
		s.stats[p.run.Kind].Bytes += int64(min(n, p.bytes))
	}
}

// cancelEvery is the interval at which a waiting user checks its context.
const cancelEvery = 10 * time.Millisecond

// awaitQueued waits until a read has completed, at most cancelEvery.
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
	if s.inFlight == 0 { // a held stream may not read the awaited piece yet
		s.mu.Unlock()
		time.Sleep(cancelEvery / 10)
		s.mu.Lock()
	}
	s.collectCompleted(cancelEvery)
	if s.closed {
		return ErrClosed
	}
	s.submit() // before the completed bytes are used
	return nil
}

// errShort marks a piece of which the system read fewer bytes than requested.
var errShort = errors.New("prefetch: short read")

// retryShort reads the first short piece at an offset of the current run again, with
// ReadAt, which returns a descriptive error. If that succeeds, the queue is at fault
// and the next pass does not use it. The caller does not hold the lock: only the user
// accesses a completed piece.
func (s *Stream) retryShort(ctx context.Context, off int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	piece := off / int64(s.ring.Piece)
	for !errors.Is(s.slotOf(piece).err, errShort) {
		piece++
	}
	p := s.slotOf(piece)
	grant, _ := s.user.Scheduler.Admit(Awaited, p.bytes)
	defer s.user.Scheduler.Done(grant)
	n, err := readWhole(p.run.From, s.ring.Memory[s.ringOffset(piece*int64(s.ring.Piece)):][:p.bytes], p.off)
	s.mu.Lock()
	defer s.mu.Unlock()
	p.err, p.checked = err, true
	s.stats[p.run.Kind].Bytes += int64(n)
	s.queued.unavailable = s.queued.unavailable || err == nil
	return nil
}

// check verifies n ready bytes at off of run i by their checksums, in whole pieces
// and on several threads. Meanwhile one thread submits more reads.
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
	c.split(piece, int64(from.Unit()))
	c.failed = nil
	if parts := 1 + int((last-first+1)*c.perPiece); s.user.RunParts != nil {
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

// split divides pieces into equal parts of whole units.
func (c *queueState) split(piece, unit int64) {
	most := int64(checkBytes)
	if c.run.Kind == KV {
		most = checkKVBytes
	}
	parts := (piece + most - 1) / most
	c.partBytes = ((piece+parts-1)/parts + unit - 1) / unit * unit
	c.perPiece = (piece + c.partBytes - 1) / c.partBytes
}

// slotOf returns the slot of a piece of the current run.
func (s *Stream) slotOf(piece int64) *slot {
	return &s.slots[(s.position.piece+piece)%int64(len(s.slots))]
}

// checkPart runs one part of a check. Part 0 submits more reads.
func (s *Stream) checkPart(part, _ int) {
	if part == 0 {
		s.Submit()
		return
	}
	c, piece := &s.queued, int64(s.ring.Piece)
	at, within := int64(part-1)/c.perPiece*piece, int64(part-1)%c.perPiece*c.partBytes
	off := c.off + at + within
	n := min(c.partBytes, piece-within, c.end-off)
	if n <= 0 {
		return
	}
	p := s.ring.Memory[s.ringOffset(off):][:n]
	if err := c.run.From.(Stored).Check(p, c.run.Off+off); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.failed == nil {
			c.failed = err
		}
	}
}

// close waits for all reads and closes the queue.
func (c *queueState) close() {
	if c.queue != nil {
		c.queue.Close()
		c.queue = nil
	}
}
