package fetch

import (
	"context"
	"time"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// selectedSlots is how many pages are on their way at once.
const selectedSlots = 16

// PageReader reads the pages that a selection took, several at a time, and returns them in
// the order in which they were submitted.
type PageReader struct {
	queue *prefetch.Queue // nil until something is read
	frame *tiering.Frame
	slot  int // bytes of a slot

	slots     []selectedPage // a ring
	submitted int            // pages since Start
	taken     int            // those of them that Next returned
	stats     prefetch.StreamStats
}

// selectedPage is a page whose read was submitted.
type selectedPage struct {
	ticket *prefetch.Ticket
	page   Page
	index  int // of the sequence
}

// Start begins another walk over pages of up to unit bytes. The first time it takes
// memory, for fewer pages at once where there is little; starting is called with the
// number of readers before they start.
func (s *PageReader) Start(budget *tiering.Budget, unit int, starting func(readers int)) (err error) {
	s.submitted, s.taken = 0, 0
	if s.queue != nil {
		return nil
	}
	s.slot = vfs.DirectSize(unit) + vfs.DirectAlign // a page may begin between two multiples
	for n := selectedSlots; n > 0; n /= 4 {
		if s.frame, err = tiering.Alloc(budget, tiering.KVFrames, n*s.slot); err == nil {
			s.slots = make([]selectedPage, n)
			starting(tiering.StreamReads)
			s.queue = prefetch.New(tiering.StreamReads)
			return nil
		}
	}
	return err
}

// Submit submits the read of a page, which must not be more than Full allows. size is that
// of a page of the layer, and index the page's number in its sequence.
func (s *PageReader) Submit(ctx context.Context, segment kv.Segment, layer, size, page, index int) {
	at := s.submitted % len(s.slots)
	from, off, _ := segment.LayerRun(layer)
	off += int64(page) * int64(size)
	before := int(off % vfs.DirectAlign)
	memory := s.frame.Bytes()[at*s.slot:][:vfs.DirectSize(before+size)]
	s.slots[at] = selectedPage{
		ticket: s.queue.Submit(ctx, prefetch.Request{From: from, Off: off - int64(before), Dst: memory}),
		page:   Page{memory[before : before+size], segment, page}, index: index,
	}
	s.submitted++
	s.stats.Bytes += int64(len(memory))
}

// Full reports whether a page has to be taken before another one can be submitted.
func (s *PageReader) Full() bool { return s.submitted-s.taken == len(s.slots) }

// Pending reports whether some submitted page has not been taken.
func (s *PageReader) Pending() bool { return s.taken < s.submitted }

// Next waits for the next submitted page. index is its number in the sequence.
func (s *PageReader) Next(ctx context.Context) (page Page, index int, err error) {
	next := &s.slots[s.taken%len(s.slots)]
	s.taken++
	begun := time.Now()
	err = next.ticket.Wait(ctx)
	s.stats.Stalls++
	s.stats.Stalled += time.Since(begun)
	return next.page, next.index, err
}

// Drain waits for the submitted pages that no caller takes.
func (s *PageReader) Drain(ctx context.Context) {
	for s.Pending() {
		_, _, _ = s.Next(ctx) // an error before this one ended the walk
	}
}

// Stats returns what was read.
func (s *PageReader) Stats() prefetch.StreamStats { return s.stats }

// Close ends all reading and releases the memory.
func (s *PageReader) Close() {
	if s.queue != nil {
		s.queue.Close()
		s.frame.Free()
	}
}
