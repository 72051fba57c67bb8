package fetch

import (
	"context"
	"time"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// selectedSlots is the number of pages in flight.
const selectedSlots = 16

// PageReader reads selected pages, several at a time, and returns them in the order
// of submission.
type PageReader struct {
	queue *prefetch.Queue // nil before the first read
	frame *tiering.Frame
	slot  int // size of a slot

	slots     []selectedPage // ring buffer
	submitted int            // pages since Start
	taken     int            // pages that Next returned
	stats     prefetch.StreamStats
}

// selectedPage is a submitted page.
type selectedPage struct {
	ticket *prefetch.Ticket
	page   Page
	index  int // in the sequence
}

// Start begins another series of reads of pages of up to unit bytes. The first call
// allocates the slots, fewer if memory is short. It calls starting with the number of
// reader goroutines and then starts them.
func (s *PageReader) Start(budget *tiering.Budget, unit int, starting func(readers int)) (err error) {
	s.submitted, s.taken = 0, 0
	if s.queue != nil {
		return nil
	}
	s.slot = vfs.DirectSize(unit) + vfs.DirectAlign // a page may begin off the alignment
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

// Submit submits the read of a page of size bytes. The caller has checked that Full
// is false. page is the number of the page in its segment, index its number in the
// sequence.
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

// Full reports whether the caller has to take a page before it submits another one.
func (s *PageReader) Full() bool { return s.submitted-s.taken == len(s.slots) }

// Pending reports whether a submitted page has not been taken.
func (s *PageReader) Pending() bool { return s.taken < s.submitted }

// Next waits for the next submitted page and returns it with its number in the
// sequence.
func (s *PageReader) Next(ctx context.Context) (page Page, index int, err error) {
	next := &s.slots[s.taken%len(s.slots)]
	s.taken++
	begun := time.Now()
	err = next.ticket.Wait(ctx)
	s.stats.Stalls++
	s.stats.Stalled += time.Since(begun)
	return next.page, next.index, err
}

// Drain waits for all pending pages and drops them.
func (s *PageReader) Drain(ctx context.Context) {
	for s.Pending() {
		_, _, _ = s.Next(ctx) // an earlier error has already been returned
	}
}

// Stats returns the totals of all reads.
func (s *PageReader) Stats() prefetch.StreamStats { return s.stats }

// Close ends all reads and releases the slots.
func (s *PageReader) Close() {
	if s.queue != nil {
		s.queue.Close()
		s.frame.Free()
	}
}
