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

// ErrCorrupt is wrapped by every error about a page whose bytes do not match its
// checksum; the error itself is a [*CorruptError].
var ErrCorrupt = segment.ErrCorrupt

// CorruptError names the page that does not match its checksum.
type CorruptError = segment.CorruptError

// Spiller writes pages to flash. One goroutine at a time may call it.
type Spiller interface {
	// Spill writes pages of every layer as one segment. The function page returns the
	// bytes of a page, none for a layer without KV. The pages continue those of
	// segment after, or start a sequence if after is nil; if the layers of both
	// segments are adjacent in the file, one read can fetch both. A failed Spill
	// frees the space that it reserved.
	Spill(after Segment, layers, pages int, page func(layer, i int) []byte) (Segment, error)
	// Close releases the spiller. The caller closes all segments first.
	Close() error
}

// Segment is a number of consecutive pages of all layers on flash. It is immutable.
type Segment interface {
	// Pages returns the number of pages of each layer.
	Pages() int
	// LayerRun returns the range in which the pages of a layer are adjacent. The
	// range begins at a multiple of 4096. A reader may read past its end up to the
	// next multiple of 4096.
	LayerRun(layer int) (from io.ReaderAt, off, size int64)
	// Verify compares the checksum of a page, computed by store/crc, with the
	// checksum of the written page. Several goroutines may call it.
	Verify(layer, page int, sum uint32) error
	// Close releases the segment: it is not used any more.
	Close() error
}

// Span is the part of a segment that a sequence uses: a number of pages from its
// first.
type Span struct {
	Pages   int
	segment *sharedSegment
}

// Segment returns the segment.
func (p *Span) Segment() Segment { return p.segment.Segment }

// sharedSegment counts the sequences that use a segment.
type sharedSegment struct {
	Segment
	refs int
}

// maxSegmentPages limits the pages of a spilled segment. It is large enough that one
// layer of a segment makes a large read.
const maxSegmentPages = 16

// SegmentPages returns the number of pages that the cache spills at a time. It is
// small if memory holds few pages.
func (c *Cache) SegmentPages() int {
	if c.hotLimit <= 0 {
		return maxSegmentPages
	}
	return max(1, min(maxSegmentPages, int(c.hotLimit/int64(max(1, c.slabBytes)))/2))
}

// Cold returns the spans on flash that the sequence begins with, in order. They are
// valid until this sequence, or another one of the cache, grows or is truncated.
func (s *Seq) Cold() []Span { return s.cold }

// ColdPages returns the number of pages of each layer on flash.
func (s *Seq) ColdPages() int { return s.coldPages }

// Version changes whenever the pages on flash change. Two sequences have the same
// version only if they have the same pages on flash.
func (s *Seq) Version() uint64 { return s.version }

// bumpVersion marks a change of the pages on flash.
func (s *Seq) bumpVersion() {
	s.cache.changes++
	s.version = s.cache.changes
}

// errNothingToSpill reports that no full page is in memory.
var errNothingToSpill = errors.New("kv: no full page in memory to spill")

// roomForSlab returns an unused slab. If memory runs out, it spills the least
// recently used pages; if spilling fails, it allocates as far as the budget allows.
// The caller holds c.mu.
func (c *Cache) roomForSlab() (*slab, error) {
	var failed error // the reason why spilling is impossible
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

// Spills reports whether the cache would have to spill pages for a sequence to grow
// to length n.
func (c *Cache) Spills(s *Seq, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	more := s.pages(n) - s.coldPages - len(s.hot)
	return c.spill != nil && c.hotLimit > 0 && int64(c.liveSlabs+more)*int64(c.slabBytes) > c.hotLimit
}

// spillOldest spills the oldest pages of the least recently used sequence. The caller
// holds c.mu.
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

// fullHotPages returns the number of full pages in memory; these do not change any
// more.
func (s *Seq) fullHotPages() int {
	return max(0, min(len(s.hot), s.len/s.cache.pageTokens-s.coldPages))
}

// spill moves the first n pages in memory to flash, for all sequences that share
// them. If a persisted segment already holds them, spill uses that segment and its
// number of pages.
func (s *Seq) spill(n int) error {
	c := s.cache
	shared := s.takeSaved()
	if shared != nil {
		n = shared.Pages()
	} else {
		segment, err := c.spill.Spill(s.lastSegment(), len(c.layerOffsets), n, func(layer, i int) []byte { return c.page(s.hot[i], layer) })
		if err != nil {
			return fmt.Errorf("kv: cannot spill %d pages of %d tokens to flash: %w", n, c.pageTokens, err)
		}
		c.written += int64(n) * int64(c.slabBytes)
		shared = &sharedSegment{Segment: segment, refs: 1}
	}
	defer shared.drop()
	slabs, first := slices.Clone(s.hot[:n]), s.coldPages
	for other := range c.seqs {
		if other.coldPages != first {
			continue
		}
		k := 0
		for k < min(n, other.fullHotPages()) && other.hot[k] == slabs[k] {
			k++
		}
		if k > 0 {
			other.moveToFlash(shared, k)
		}
	}
	return nil
}

// lastSegment returns the segment that ends with the last page on flash, nil if there
// is none.
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

// moveToFlash replaces the first k pages in memory by a span of the segment that
// holds them.
func (s *Seq) moveToFlash(segment *sharedSegment, k int) {
	for _, r := range s.hot[:k] {
		s.cache.releaseSlab(r)
	}
	left := copy(s.hot, s.hot[k:])
	clear(s.hot[left:])
	s.hot = s.hot[:left]
	segment.refs++
	s.cold = append(s.cold, Span{Pages: k, segment: segment})
	s.coldPages += k
	s.bumpVersion()
}

// attach appends the first pages of a segment to a sequence without pages in memory.
// The segment is closed when no sequence uses it any more. The caller holds c.mu.
func (s *Seq) attach(segment Segment, pages int) {
	s.cold = append(s.cold, Span{Pages: pages, segment: &sharedSegment{Segment: segment, refs: 1}})
	s.coldPages += pages
	s.len += pages * s.cache.pageTokens
	s.bumpVersion()
}

// cutCold removes the pages on flash after the first n.
func (s *Seq) cutCold(n int) {
	if s.coldPages <= n {
		return
	}
	for s.coldPages > n {
		last := &s.cold[len(s.cold)-1]
		removed := min(last.Pages, s.coldPages-n)
		s.coldPages -= removed
		if last.Pages -= removed; last.Pages > 0 {
			break
		}
		last.segment.drop()
		*last = Span{}
		s.cold = s.cold[:len(s.cold)-1]
	}
	s.bumpVersion()
}

// unspillLast brings the last page on flash back into memory. The copy belongs to
// this sequence alone.
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

// SetHot changes Options.Hot and spills pages until memory is within the new limit.
// If spilling fails, the remaining pages stay in memory.
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

// Stats counts the pages of all sequences. A page here comprises all layers.
type Stats struct {
	HotPages, ColdPages int
	PageTokens          int
	PageBytes           int   // size of a page of all layers
	Written             int64 // bytes of spilled pages
	Failed              error // the last spill error; its pages stayed in memory
}

// Stats returns the current counts.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := Stats{HotPages: c.liveSlabs, PageTokens: c.pageTokens, PageBytes: c.slabBytes, Written: c.written, Failed: c.failed}
	for s := range c.seqs {
		st.ColdPages += s.coldPages
	}
	return st
}
