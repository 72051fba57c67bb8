package weights

import (
	"context"
	"io"
	"slices"
	"sync"
)

// expertReads fills slots, several reads at a time, those first that the
// arithmetic waits for. Nothing is allocated on the way.
type expertReads struct {
	Mu        sync.Mutex
	work      sync.Cond // signalled when a list has grown and when it closes
	Slots     []expertSlot
	required  slotList      // of which there are pieces to read
	guessed   slotList      // the same, for experts that may be chosen
	completed chan struct{} // capacity 1: a slot is not busy any more
	bytes     int64
	closed    bool
	exited    sync.WaitGroup
}

// expertSlot is memory for one expert.
type expertSlot struct {
	ID    int32  // whose weights these are, or will be; -1: nobody's
	step  uint64 // of the cache that last worked with it
	guess uint64 // step in which its read began as a guess

	// The read that fills it.
	from     io.ReaderAt
	memory   []byte
	next     int // memory up to here has been handed out to readers
	inFlight int
	err      error
}

// busy reports whether a read is under way or waits for its turn.
func (s *expertSlot) busy() bool { return s.inFlight > 0 || s.next < len(s.memory) }

// open starts readers for some slots, which may become more, up to room.
func (r *expertReads) open(slots, room, readers int) {
	r.work.L = &r.Mu
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

// busy reports whether any slot is. The lock is held.
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
}

// require makes a guess something that is waited for. The lock is held.
func (r *expertReads) require(at int32) {
	if r.guessed.remove(at) {
		r.required.push(at)
	}
}

// wait returns when a read has ended since it was last called, or with the
// context's error.
func (r *expertReads) wait(ctx context.Context) error {
	select {
	case <-r.completed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readLoop is the life of one reader.
func (r *expertReads) readLoop() {
	defer r.exited.Done()
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for !r.closed {
		at := r.required.first()
		list := &r.required
		if at < 0 {
			at, list = r.guessed.first(), &r.guessed
		}
		if at < 0 {
			r.work.Wait()
			continue
		}
		s := &r.Slots[at]
		lo := s.next
		hi := min(lo+sectionPiece, len(s.memory))
		if s.next = hi; hi == len(s.memory) {
			list.remove(at)
		}
		s.inFlight++
		from, dst := s.from, s.memory[lo:hi]
		r.Mu.Unlock()
		n, err := from.ReadAt(dst, int64(lo))
		r.Mu.Lock()
		r.bytes += int64(n)
		r.complete(at, n == len(dst), err)
	}
}

// complete enters that a piece has been read, or could not be. The lock is held.
func (r *expertReads) complete(at int32, whole bool, err error) {
	s := &r.Slots[at]
	s.inFlight--
	if !whole {
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

// slotList is a list of slots, each at most once, in the order in which they came.
type slotList []int32

func (l *slotList) push(at int32) { *l = append(*l, at) }

func (l *slotList) clear() { *l = (*l)[:0] }

// first returns the slot that came first, -1 if there is none.
func (l slotList) first() int32 {
	if len(l) == 0 {
		return -1
	}
	return l[0]
}

// remove takes a slot off the list and reports whether it was on it.
func (l *slotList) remove(at int32) bool {
	i := slices.Index(*l, at)
	if i < 0 {
		return false
	}
	*l = slices.Delete(*l, i, i+1)
	return true
}
