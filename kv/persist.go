package kv

import (
	"context"
	"io"
	"slices"

	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/crc"
)

var _ Segment = (*segment.File)(nil)

// SegmentLayout returns the layout of the segments that this cache persists.
func (c *Cache) SegmentLayout() segment.Layout {
	l := segment.Layout{PageTokens: c.pageTokens, Format: uint32(c.shape.Format)}
	for i := range c.shape.KVHeads {
		l.PageBytes = append(l.PageBytes, c.PageBytes(i))
	}
	return l
}

// Chain lists the persisted segments that hold the beginning of a sequence, in order.
type Chain []segment.Ref

// Pages returns the number of pages of the chain.
func (c Chain) Pages() int {
	n := 0
	for _, r := range c {
		n += r.Pages
	}
	return n
}

// Cut returns the segments of the chain that are completely within the first pages.
func (c Chain) Cut(pages int) Chain {
	for len(c) > 0 && c.Pages() > pages {
		c = c[:len(c)-1]
	}
	return c
}

// savedSegment is a written segment whose last pages are also in memory, or all of them: one
// that was persisted, or one that was written behind. The cache drops these pages without
// writing them again.
type savedSegment struct {
	first   int // number of its first page in the sequence
	segment *sharedSegment
}

// end returns the number of the page after the segment's last one.
func (k savedSegment) end() int { return k.first + k.segment.Pages() }

// persisted reports whether the segment is one of a session or of the prefix cache.
func (k savedSegment) persisted() bool {
	_, is := k.segment.Segment.(*segment.File)
	return is
}

// nextSaved returns the written segment that holds the first page in memory, nil if there is
// none. Its pages before that one are the last ones on flash. The caller holds c.mu.
func (s *Seq) nextSaved() *savedSegment {
	for len(s.saved) > 0 && s.saved[0].first <= s.coldPages {
		k := &s.saved[0]
		if s.coldPages < k.end() && k.end() <= s.coldPages+s.fullHotPages() && s.spanPages(k.segment) == s.coldPages-k.first {
			return k
		}
		k.segment.drop()
		s.saved = slices.Delete(s.saved, 0, 1)
	}
	return nil
}

// spanPages returns the number of pages of a segment that are the sequence's last ones on flash.
func (s *Seq) spanPages(of *sharedSegment) int {
	if last := len(s.cold) - 1; last >= 0 && s.cold[last].segment == of {
		return s.cold[last].Pages
	}
	return 0
}

// writtenPages returns the number of pages in memory, from the first, that are written, and the
// segment of the last of them, nil if there is none. The caller holds c.mu.
func (s *Seq) writtenPages() (n int, last Segment) {
	if s.nextSaved() == nil {
		return 0, nil
	}
	for _, k := range s.saved {
		if k.first > s.coldPages+n || k.end() > s.coldPages+s.fullHotPages() {
			break
		}
		n, last = k.end()-s.coldPages, k.segment.Segment
	}
	return n, last
}

// cutSaved drops the records of written segments with pages after the first n. The
// caller holds c.mu.
func (s *Seq) cutSaved(n int) {
	for last := len(s.saved) - 1; last >= 0 && s.saved[last].end() > n; last-- {
		s.saved[last].segment.drop()
		s.saved = slices.Delete(s.saved, last, last+1)
	}
}

// Damaged reads the pages on flash and verifies their checksums. It returns the first page, in the
// sequence, of the first segment that is damaged, and the error; f is the segment if it is a persisted one.
// The error is nil if no page is damaged, or if ctx ends.
func (s *Seq) Damaged(ctx context.Context) (f *segment.File, page int, err error) {
	c := s.cache
	c.mu.Lock()
	held := slices.Clone(s.cold)
	for _, p := range held {
		p.segment.refs++
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, p := range held {
			p.segment.drop()
		}
	}()
	for _, p := range held {
		if ctx.Err() != nil {
			return nil, 0, nil
		}
		if f, ok := p.segment.Segment.(*segment.File); !ok {
			err = c.verify(ctx, &p)
		} else if err = f.VerifyAll(); err != nil {
			return f, page, err
		}
		if err != nil && ctx.Err() == nil {
			return nil, page, err
		}
		page += p.Pages
	}
	return nil, 0, nil
}

// verify reads the pages of a span and verifies their checksums.
func (c *Cache) verify(ctx context.Context, p *Span) error {
	var buffer []byte
	for l := range c.layerOffsets {
		for i := range p.Pages {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := c.PageBytes(l)
			buffer = slices.Grow(buffer[:0], n)[:n]
			if err := c.readAwaited(p.segment, l, i, buffer); err != nil {
				return err
			}
		}
	}
	return nil
}

// readAwaited is readPage for a page that somebody waits for.
func (c *Cache) readAwaited(from Segment, layer, page int, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	grant, _ := c.scheduler().Admit(prefetch.Awaited, len(data))
	defer c.scheduler().Done(grant)
	return readPage(from, layer, page, data)
}

// drop releases one reference to a segment. The caller holds c.mu of the cache.
func (c *sharedSegment) drop() {
	if c.refs--; c.refs == 0 {
		_ = c.Close() // its pages are not needed any more
	}
}

// readPage reads and verifies one page of a segment.
func readPage(c Segment, layer, page int, data []byte) error {
	return readPages(c, layer, page, len(data), data)
}

// readPages fills data with consecutive pages of the given size, beginning with page,
// and verifies them.
func readPages(c Segment, layer, page, size int, data []byte) error {
	from, off, _ := c.LayerRun(layer)
	n, err := from.ReadAt(data, off+int64(page)*int64(size))
	switch {
	case n == len(data):
	case err == nil:
		return io.ErrUnexpectedEOF
	default:
		return err
	}
	for at := 0; at < n; at += size {
		if err := c.Verify(layer, page, crc.Update(0, data[at:at+size])); err != nil {
			return err
		}
		page++
	}
	return nil
}

// ReadPages fills data with consecutive pages of a layer, beginning with page, and
// verifies them.
func (p *Span) ReadPages(layer, page, size int, data []byte) error {
	return readPages(p.segment.Segment, layer, page, size, data)
}
