package kv

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/tiering"
)

// ErrCorrupt is wrapped by every error about a page whose bytes do not match its
// checksum; the error itself is a [*CorruptError].
var ErrCorrupt = segment.ErrCorrupt

// CorruptError names the page that does not match its checksum.
type CorruptError = segment.CorruptError

// Spiller writes pages to flash. One goroutine at a time may call Spill.
type Spiller interface {
	// Spill writes pages of every layer as one segment. The function page returns the
	// bytes of a page, none for a layer without KV. The pages continue those of
	// segment after, or start a sequence if after is nil; if the layers of both
	// segments are adjacent in the file, one read can fetch both. It writes the bytes
	// with write. A failed Spill frees the space that it reserved. Segments may be
	// read and closed meanwhile.
	Spill(after Segment, layers, pages int, page func(layer, i int) []byte, write prefetch.WriteFunc) (Segment, error)
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
	// Authentic reports whether reads of pages fail unless they return what was written, as
	// those of encrypted files that are written once. Then Verify shows nothing more.
	Authentic() bool
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

// roomForSlab returns an unused slab, the first of a number that the caller needs. If memory runs
// out, it drops the least recently used pages, which it writes to flash unless the writer already
// did; if writing fails, it allocates as far as the budget allows. If ctx ends, it returns the
// error of ctx. The caller holds c.mu, which is free during waits for flash.
func (c *Cache) roomForSlab(ctx context.Context, slabs int) (*slab, error) {
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
			case c.saver.save != nil: // it holds pages that may be free otherwise
				if err := c.awaitSave(ctx); err != nil {
					return nil, err
				}
				continue
			case errors.Is(failed, errNothingToSpill):
				return nil, err
			case failed != nil:
				return nil, errors.Join(err, failed)
			}
		}
		failed = c.spillOldest(ctx, slabs)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// Spills reports whether the cache would write pages for a sequence to grow to length n, now or
// behind. It does not for pages that are written already.
func (c *Cache) Spills(s *Seq, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	more := s.pages(n) - s.coldPages - len(s.hot)
	if c.spill == nil || c.hotLimit <= 0 || c.slabsLeft()-more > c.writeMargin() {
		return false
	}
	_, room := c.nextToWrite()
	return room-more <= c.writeMargin()
}

// fullHotPages returns the number of full pages in memory; these do not change any
// more.
func (s *Seq) fullHotPages() int {
	return max(0, min(len(s.hot), s.len/s.cache.pageTokens-s.coldPages))
}

// dropWritten drops the first page in memory, whose segment is written, or all pages of the
// segment, for all sequences that share them.
func (s *Seq) dropWritten(all bool) {
	k := *s.nextSaved()
	k.segment.refs++
	defer k.segment.drop()
	for more := true; more; more = all && s.coldPages < k.end() {
		slab, page := s.hot[0], s.coldPages
		for other := range s.cache.seqs {
			if other.coldPages == page && other.fullHotPages() > 0 && other.hot[0] == slab {
				other.moveToFlash(k.segment, page-k.first)
			}
		}
	}
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

// moveToFlash drops the first page in memory, which is page i of a segment. If the pages before it
// are not those of the segment, it stays in memory.
func (s *Seq) moveToFlash(segment *sharedSegment, i int) {
	if s.spanPages(segment) != i {
		return
	}
	s.cache.releaseSlab(s.hot[0])
	s.hot = slices.Delete(s.hot, 0, 1)
	if i == 0 {
		segment.refs++
		s.cold = append(s.cold, Span{segment: segment})
	}
	s.cold[len(s.cold)-1].Pages++
	s.coldPages++
	s.bumpVersion()
	s.nextSaved() // forgets the segment if this was its last page
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
// this sequence alone. The caller holds c.mu, which is free during the read: until
// then the sequence has its page on flash, and the slab has no owner but Grow.
func (s *Seq) unspillLast(ctx context.Context) error {
	c := s.cache
	r, err := c.roomForSlab(ctx, 1)
	if err != nil {
		return err
	}
	last := s.cold[len(s.cold)-1]
	last.segment.refs++
	c.beginUse()
	c.mu.Unlock()
	err = c.readSlab(ctx, r, last)
	c.mu.Lock()
	c.endUse()
	last.segment.drop()
	if err == nil && c.closed {
		err = ErrClosed
	}
	if err != nil {
		c.releaseSlab(r)
		return err
	}
	s.cutCold(s.coldPages - 1)
	s.hot = append(s.hot, r)
	return nil
}

// readSlab reads the last page of a span in all layers.
func (c *Cache) readSlab(ctx context.Context, r *slab, from Span) error {
	grant, _ := c.scheduler().Admit(prefetch.Awaited, c.slabBytes)
	defer c.scheduler().Done(grant)
	for l := range c.layerOffsets {
		data := c.page(r, l)
		if len(data) == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := readPage(from.segment, l, from.Pages-1, data); err != nil {
			return err
		}
	}
	return nil
}

// SetHot changes Options.Hot and spills pages until memory is within the new limit.
// If spilling fails, the remaining pages stay in memory.
func (c *Cache) SetHot(bytes int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hotLimit = bytes
	for c.hotLimit > 0 && int64(c.liveSlabs)*int64(c.slabBytes) > c.hotLimit {
		if err := c.spillOldest(context.Background(), 1); errors.Is(err, errNothingToSpill) {
			break
		} else if err != nil {
			return err
		}
	}
	c.takeAllBack()
	c.trim()
	return nil
}

// Stats counts the pages of all sequences. A page here comprises all layers.
type Stats struct {
	HotPages, ColdPages int
	PageTokens          int
	PageBytes           int   // size of a page of all layers
	AheadPages          int   // pages in memory that are already written for a spill
	Written             int64 // bytes written for spills
	Failed              error // the last spill error; its pages stayed in memory
	// SpillStalled is the time that tokens waited for the writer, and SpillStalls the
	// number of these waits.
	SpillStalled time.Duration
	SpillStalls  int
	// SaveStalled and SaveStalls are the same for saves that held pages.
	SaveStalled time.Duration
	SaveStalls  int
}

// Stats returns the current counts.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pollWriter()
	c.pollSave()
	st := Stats{HotPages: c.liveSlabs, PageTokens: c.pageTokens, PageBytes: c.slabBytes, Written: c.behind.writer.Bytes(), Failed: c.failed, SpillStalled: c.behind.stalled, SpillStalls: c.behind.stalls, SaveStalled: c.saver.stalled, SaveStalls: c.saver.stalls}
	for s := range c.seqs {
		if s.ofSave {
			continue
		}
		st.ColdPages += s.coldPages
		st.AheadPages += s.aheadPages()
	}
	return st
}
