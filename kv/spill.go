package kv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/tiering"
)

// ErrCorrupt is wrapped by every report of a page that is not what was written;
// the error itself is a [*CorruptError].
var ErrCorrupt = segment.ErrCorrupt

// CorruptError says which page came back from flash other than it went there.
type CorruptError = segment.CorruptError

// Spiller takes pages to flash. One goroutine at a time calls it.
type Spiller interface {
	// Spill writes some pages of every layer as one chunk. page returns their
	// bytes, none for a layer that keeps no keys. The pages come after those of
	// another chunk, or after none if that is nil: layers of the two that lie one
	// behind the other can be read at once. An error leaves nothing behind.
	Spill(after Segment, layers, pages int, page func(layer, i int) []byte) (Segment, error)
	// Close is called when no chunk is used any more.
	Close() error
}

// Segment is consecutive pages of all layers on flash. It never changes.
type Segment interface {
	// Pages returns how many pages of each layer it has.
	Pages() int
	// LayerRun says where the pages of a layer lie one after the other. The run
	// begins at a multiple of 4096, and so much may be read behind its end that it
	// ends at one.
	LayerRun(layer int) (from io.ReaderAt, off, size int64)
	// Verify compares the checksum of a page that was read, which is the one that
	// store/crc computes, with that of what was written. It is called from several
	// goroutines.
	Verify(layer, page int, sum uint32) error
	// Close says that nobody needs the chunk any more.
	Close() error
}

// Span is what a sequence uses of a chunk: so many pages from its first.
type Span struct {
	Pages   int
	segment *sharedSegment
}

// Segment returns where the pages are.
func (p *Span) Segment() Segment { return p.segment.Segment }

// sharedSegment is a chunk that several sequences may use.
type sharedSegment struct {
	Segment
	refs int
}

// most pages of a chunk: enough that the pages of one layer make a large read.
const maxSegmentPages = 16

// SegmentPages returns how many pages are spilled together: fewer where few may be
// in memory.
func (c *Cache) SegmentPages() int {
	if c.hotLimit <= 0 {
		return maxSegmentPages
	}
	return max(1, min(maxSegmentPages, int(c.hotLimit/int64(max(1, c.slabBytes)))/2))
}

// Cold returns the parts on flash, in order, that the sequence begins with. They
// stay as they are until the sequence, or another one of the cache, grows or is
// shortened.
func (s *Seq) Cold() []Span { return s.cold }

// ColdPages returns how many pages of each layer are on flash.
func (s *Seq) ColdPages() int { return s.coldPages }

// Version is another number after each change of what is on flash; two
// sequences have the same number only if they have the same pages there.
func (s *Seq) Version() uint64 { return s.version }

// bumpVersion gives the sequence's cold pages another version.
func (s *Seq) bumpVersion() {
	s.cache.changes++
	s.version = s.cache.changes
}

// errNothingToSpill says that all pages in memory are still being written to.
var errNothingToSpill = errors.New("kv: there is nothing that can go to flash")

// roomForSlab returns an unused row. Where there is no memory for one it spills what
// was not used for longest; what cannot be spilled stays in memory as far as the
// budget allows. c.mu is held.
func (c *Cache) roomForSlab() (*slab, error) {
	var failed error // why nothing can be spilled
	if c.spill == nil {
		failed = errNothingToSpill
	}
	for {
		if full := c.hotLimit > 0 && int64(c.liveSlabs+1)*int64(c.slabBytes) > c.hotLimit; !full || failed != nil {
			r, err := c.takeSlab()
			switch {
			case !errors.Is(err, tiering.ErrBudget):
				return r, err
			case errors.Is(failed, errNothingToSpill):
				return nil, err
			case failed != nil:
				return nil, errors.Join(err, failed)
			}
		}
		failed = c.spillOldest()
	}
}

// Spills reports whether pages would have to go to flash if a sequence grew to
// length n.
func (c *Cache) Spills(s *Seq, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	more := s.pages(n) - s.coldPages - len(s.hot)
	return c.spill != nil && c.hotLimit > 0 && int64(c.liveSlabs+more)*int64(c.slabBytes) > c.hotLimit
}

// spillOldest spills the oldest pages of the sequence that was not used for
// longest. c.mu is held.
func (c *Cache) spillOldest() error {
	var oldest *Seq
	for s := range c.seqs {
		if s.fullHotPages() > 0 && (oldest == nil || s.used < oldest.used) {
			oldest = s
		}
	}
	if c.spill == nil || oldest == nil {
		return errNothingToSpill
	}
	err := oldest.spill(min(oldest.fullHotPages(), c.SegmentPages()))
	if err != nil {
		c.failed = err
	}
	return err
}

// fullHotPages returns how many of the pages in memory are full, and will not change.
func (s *Seq) fullHotPages() int {
	return max(0, min(len(s.hot), s.len/s.cache.pageTokens-s.coldPages))
}

// spill takes the first n pages in memory to flash, for all sequences that share
// them. Where they are kept there already, it takes as many as are kept together.
func (s *Seq) spill(n int) error {
	c := s.cache
	shared := s.takeSaved()
	if shared != nil {
		n = shared.Pages()
	} else {
		chunk, err := c.spill.Spill(s.lastSegment(), len(c.layerOffsets), n, func(layer, i int) []byte { return c.page(s.hot[i], layer) })
		if err != nil {
			return fmt.Errorf("kv: %d pages of %d tokens cannot go to flash: %w", n, c.pageTokens, err)
		}
		c.written += int64(n) * int64(c.slabBytes)
		shared = &sharedSegment{Segment: chunk, refs: 1}
	}
	defer shared.drop()
	rows, first := slices.Clone(s.hot[:n]), s.coldPages
	for other := range c.seqs {
		if other.coldPages != first {
			continue
		}
		k := 0
		for k < min(n, other.fullHotPages()) && other.hot[k] == rows[k] {
			k++
		}
		if k > 0 {
			other.moveToFlash(shared, k)
		}
	}
	return nil
}

// lastSegment returns the chunk whose end is that of the cold pages; nil if there is
// none.
func (s *Seq) lastSegment() Segment {
	if len(s.cold) == 0 {
		return nil
	}
	last := &s.cold[len(s.cold)-1]
	if last.Pages < last.segment.Pages() {
		return nil
	}
	return last.segment.Segment
}

// moveToFlash makes the first k pages in memory a part of a chunk that holds them.
func (s *Seq) moveToFlash(chunk *sharedSegment, k int) {
	for _, r := range s.hot[:k] {
		s.cache.releaseSlab(r)
	}
	left := copy(s.hot, s.hot[k:])
	clear(s.hot[left:])
	s.hot = s.hot[:left]
	chunk.refs++
	s.cold = append(s.cold, Span{Pages: k, segment: chunk})
	s.coldPages += k
	s.bumpVersion()
}

// attach makes the first pages of a chunk the next tokens of a sequence that has
// nothing in memory. The chunk is closed when no sequence uses it any more. c.mu is
// held.
func (s *Seq) attach(chunk Segment, pages int) {
	s.cold = append(s.cold, Span{Pages: pages, segment: &sharedSegment{Segment: chunk, refs: 1}})
	s.coldPages += pages
	s.len += pages * s.cache.pageTokens
	s.bumpVersion()
}

// cutCold forgets cold pages behind the first n.
func (s *Seq) cutCold(n int) {
	if s.coldPages <= n {
		return
	}
	for s.coldPages > n {
		last := &s.cold[len(s.cold)-1]
		drop := min(last.Pages, s.coldPages-n)
		s.coldPages -= drop
		if last.Pages -= drop; last.Pages > 0 {
			break
		}
		last.segment.drop()
		*last = Span{}
		s.cold = s.cold[:len(s.cold)-1]
	}
	s.bumpVersion()
}

// unspillLast brings the last cold page back, as a copy of the sequence's own.
func (s *Seq) unspillLast(ctx context.Context) error {
	c := s.cache
	r, err := c.roomForSlab()
	if err != nil {
		return err
	}
	last := &s.cold[len(s.cold)-1]
	for l := range c.layerOffsets {
		data := c.page(r, l)
		if len(data) == 0 {
			continue
		}
		err := ctx.Err()
		if err == nil {
			err = readPage(last.segment, l, last.Pages-1, data)
		}
		if err != nil {
			c.releaseSlab(r)
			return err
		}
	}
	s.cutCold(s.coldPages - 1)
	s.hot = append(s.hot, r)
	return nil
}

// SetHot changes Options.Hot and takes what is too much to flash. Where that
// fails, it stays in memory.
func (c *Cache) SetHot(bytes int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hotLimit = bytes
	for c.hotLimit > 0 && int64(c.liveSlabs)*int64(c.slabBytes) > c.hotLimit {
		if err := c.spillOldest(); errors.Is(err, errNothingToSpill) {
			break
		} else if err != nil {
			return err
		}
	}
	c.trim()
	return nil
}

// Stats says where the pages of all sequences are. A page here is that of all
// layers.
type Stats struct {
	HotPages, ColdPages int
	PageTokens          int
	PageBytes           int   // of all layers
	Written             int64 // bytes of pages that went to flash
	Failed              error // the last failure to write any, which kept them in memory
}

// Stats returns where pages are.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := Stats{HotPages: c.liveSlabs, PageTokens: c.pageTokens, PageBytes: c.slabBytes, Written: c.written, Failed: c.failed}
	for s := range c.seqs {
		st.ColdPages += s.coldPages
	}
	return st
}
