package weights

import (
	"context"
	"io"
	"slices"
	"sync"

	"github.com/llmrun/llmrun/prefetch"
)

// expertReads fills slots with several concurrent reads. Required reads go before predicted
// ones. It allocates nothing while reading.
type expertReads struct {
	Mu        sync.Mutex
	work      sync.Cond // signalled when a list grows and on close
	Slots     []expertSlot
	required  slotList      // slots with pieces left to read that the pass waits for
	guessed   slotList      // slots of predicted experts
	completed chan struct{} // capacity 1: a slot is no longer busy
	bytes     int64
	scheduler *prefetch.Scheduler // admits the reads; nil admits all
	leave     func()
	closed    bool
	exited    sync.WaitGroup
}

// expertSlot is the memory of one expert.
type expertSlot struct {
	ID    int32  // the expert; -1: empty
	step  uint64 // the last step that used it
	guess uint64 // the step in which a predicted read began

	// The read that fills the slot.
	from     io.ReaderAt
	memory   []byte
	next     int // readers have taken the bytes before this one
	inFlight int
	err      error
}

// busy reports whether reads of the slot are in flight or queued.
func (s *expertSlot) busy() bool { return s.inFlight > 0 || s.next < len(s.memory) }

// open starts readers for a number of slots, which may grow to room.
func (r *expertReads) open(slots, room, readers int, scheduler *prefetch.Scheduler) {
	r.work.L = &r.Mu
	r.scheduler, r.leave = scheduler, scheduler.Join(r.work.Broadcast, nil)
	r.completed = make(chan struct{}, 1)
	r.Slots = make([]expertSlot, slots, room)
	for i := range r.Slots {
		r.Slots[i].ID = -1
	}
	r.required, r.guessed = make(slotList, 0, room), make(slotList, 0, room)
	r.exited.Add(readers)
	for range readers {
		go r.readLoop()
	}
}

// busy reports whether any slot is busy. The caller holds the lock.
func (r *expertReads) busy() bool {
	return slices.ContainsFunc(r.Slots, func(s expertSlot) bool { return s.busy() })
}

// close stops the readers and waits for them.
func (r *expertReads) close() {
	r.Mu.Lock()
	r.closed = true
	r.work.Broadcast()
	r.Mu.Unlock()
	r.exited.Wait()
	if r.leave != nil {
		r.leave()
	}
}

// require turns a predicted read into a required one. The caller holds the lock.
func (r *expertReads) require(at int32) {
	if r.guessed.remove(at) {
		r.required.push(at)
	}
}

// wait returns when a read has completed since the last call, or the context's error.
func (r *expertReads) wait(ctx context.Context) error {
	select {
	case <-r.completed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readLoop is the goroutine of one reader. A refused guess waits until the scheduler wakes all
// readers. What the pass waits for is always admitted.
func (r *expertReads) readLoop() {
	defer r.exited.Done()
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for !r.closed {
		at := r.required.first()
		list, class := &r.required, prefetch.Awaited
		if at < 0 {
			at, list, class = r.guessed.first(), &r.guessed, prefetch.Guessed
		}
		if at < 0 {
			r.work.Wait()
			continue
		}
		s := &r.Slots[at]
		lo := s.next
		hi := min(lo+sectionPiece, len(s.memory))
		grant, ok := r.scheduler.Admit(class, hi-lo)
		if !ok {
			r.work.Wait()
			continue
		}
		if s.next = hi; hi == len(s.memory) {
			list.remove(at)
		}
		s.inFlight++
		from, dst := s.from, s.memory[lo:hi]
		r.Mu.Unlock()
		n, err := from.ReadAt(dst, int64(lo))
		r.scheduler.Done(grant)
		r.Mu.Lock()
		r.bytes += int64(n)
		r.complete(at, n == len(dst), err)
	}
}

// complete records the result of reading one piece. The caller holds the lock.
func (r *expertReads) complete(at int32, full bool, err error) {
	s := &r.Slots[at]
	s.inFlight--
	if !full {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		if s.err == nil {
			s.err = err
		}
		s.memory = s.memory[:s.next]
		r.required.remove(at)
		r.guessed.remove(at)
	}
	if !s.busy() {
		select {
		case r.completed <- struct{}{}:
		default:
		}
	}
}

// slotList is a list of distinct slots, in order of insertion.
type slotList []int32

func (l *slotList) push(at int32) { *l = append(*l, at) }

func (l *slotList) clear() { *l = (*l)[:0] }

// first returns the oldest entry; -1: the list is empty.
func (l slotList) first() int32 {
	if len(l) == 0 {
		return -1
	}
	return l[0]
}

// remove deletes a slot and reports whether the list contained it.
func (l *slotList) remove(at int32) bool {
	i := slices.Index(*l, at)
	if i < 0 {
		return false
	}
	*l = slices.Delete(*l, i, i+1)
	return true
}
