package kv

import (
	"errors"
	"io"
	"slices"

	"github.com/llmrun/llmrun/kv/segment"
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

// Persist writes the full pages of a sequence to the store, except those that the
// store already holds, and returns the chain of all of them. tokens are the tokens of
// the sequence; chain is the result of an earlier Persist or Restore. On an error,
// Persist returns the chain of the segments that it could write.
func (s *Seq) Persist(store *segment.Store, tokens []int32, chain Chain, durable bool) (_ Chain, err error) {
	page := s.cache.pageTokens
	pages := min(len(tokens), s.len) / page
	chain = slices.Clip(chain.Cut(pages)) // appending must not overwrite the caller's chain
	held := s.pinPages(pages)
	defer held.release()
	var written []segment.Span // open until the end, so that the eviction for later segments spares them
	defer func() {
		s.noteSaved(written)
		err = errors.Join(err, segment.Close(written))
	}()
	parent, at := store.Key(), 0
	for i := 0; at < pages; i++ {
		n := min(segment.MaxPages, pages-at)
		if i < len(chain) {
			n = chain[i].Pages
		}
		f, err := store.Write(parent, at*page, tokens[at*page:(at+n)*page], held.pagesFrom(at), durable)
		if err != nil {
			return chain[:i], err
		}
		written = append(written, segment.Span{File: f, Pages: n})
		if i == len(chain) {
			chain = append(chain, segment.Ref{ID: f.ID(), Pages: n})
		}
		parent, at = f.ID(), at+n
	}
	return chain, nil
}

// savedSegment is a persisted segment whose pages are also in memory. The cache
// spills these pages without writing them again.
type savedSegment struct {
	first   int // number of its first page in the sequence
	segment *sharedSegment
}

// noteSaved records the persisted segments of a sequence whose pages are still in
// memory. spans begin with the first token.
func (s *Seq) noteSaved(spans []segment.Span) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spill == nil {
		return
	}
	s.cutSaved(0)
	first := 0
	for _, p := range spans {
		if first >= s.coldPages {
			s.saved = append(s.saved, savedSegment{first, &sharedSegment{Segment: p.File.Retain(), refs: 1}})
		}
		first += p.Pages
	}
	s.cutSaved(s.len / c.pageTokens) // the sequence may have been truncated meanwhile
}

// takeSaved returns the persisted segment that begins with the first page in memory,
// nil if there is none. The caller owns it and holds c.mu.
func (s *Seq) takeSaved() *sharedSegment {
	for len(s.saved) > 0 && s.saved[0].first <= s.coldPages {
		k := s.saved[0]
		s.saved = slices.Delete(s.saved, 0, 1)
		if k.first == s.coldPages && k.segment.Pages() <= s.fullHotPages() {
			return k.segment
		}
		k.segment.drop()
	}
	return nil
}

// cutSaved drops the records of persisted segments with pages after the first n. The
// caller holds c.mu.
func (s *Seq) cutSaved(n int) {
	for last := len(s.saved) - 1; last >= 0 && s.saved[last].first+s.saved[last].segment.Pages() > n; last-- {
		s.saved[last].segment.drop()
		s.saved = slices.Delete(s.saved, last, last+1)
	}
}

// Damaged reads the persisted segments of the pages on flash and verifies their
// checksums. It returns the first damaged segment, its first page in the sequence and
// the error; f is nil if no page is damaged.
func (s *Seq) Damaged() (f *segment.File, page int, err error) {
	held := s.pinPages(0)
	defer held.release()
	for _, p := range held.cold {
		if f, ok := p.segment.Segment.(*segment.File); ok {
			if err := f.VerifyAll(); err != nil {
				return f, page, err
			}
		}
		page += p.Pages
	}
	return nil, 0, nil
}

// pagePin holds references to full pages of a sequence, so that they stay in place
// while other sequences grow.
type pagePin struct {
	cache *Cache
	cold  []Span
	slabs []*slab
}

// pinPages pins the first pages of a sequence.
func (s *Seq) pinPages(pages int) *pagePin {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &pagePin{cache: c, cold: slices.Clone(s.cold), slabs: slices.Clone(s.hot[:max(0, pages-s.coldPages)])}
	for _, p := range h.cold {
		p.segment.refs++
	}
	for _, r := range h.slabs {
		r.refs++
	}
	return h
}

func (h *pagePin) release() {
	c := h.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range h.cold {
		p.segment.drop()
	}
	for _, r := range h.slabs {
		c.releaseSlab(r)
	}
}

// drop releases one reference to a segment. The caller holds c.mu of the cache.
func (c *sharedSegment) drop() {
	if c.refs--; c.refs == 0 {
		_ = c.Close() // its pages are not needed any more
	}
}

// pagesFrom returns a function that yields the bytes of pages from first on.
func (h *pagePin) pagesFrom(first int) segment.Pages {
	var buffer []byte
	return func(layer, i int) ([]byte, error) {
		page := first + i
		for _, p := range h.cold {
			if page >= p.Pages {
				page -= p.Pages
				continue
			}
			n := h.cache.PageBytes(layer)
			buffer = slices.Grow(buffer[:0], n)[:n]
			return buffer, readPage(p.segment, layer, page, buffer)
		}
		return h.cache.page(h.slabs[page], layer), nil
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
