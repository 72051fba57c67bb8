package kv

import (
	"context"
	"sync"

	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// restoreReaders is the number of layers that Restore reads in parallel.
const restoreReaders = 4

// Restore extends a sequence to the tokens of spans. The spans begin with the first
// token of the sequence and end after its last token; the tokens that the sequence
// already has must be equal. Restore returns the chain of the segments that the
// sequence then holds completely. If the pages
// fit into the memory limit, Restore reads and verifies them; otherwise they stay on
// flash and attention verifies them when it reads them. On an error the sequence
// keeps its previous tokens.
func (s *Seq) Restore(ctx context.Context, spans []segment.Span) (Chain, error) {
	var chain Chain
	total := 0
	for _, p := range spans {
		if p.Pages == p.File.Pages() {
			chain = append(chain, segment.Ref{ID: p.File.ID(), Pages: p.Pages})
		}
		total += p.Pages
	}
	if !s.cache.fits(total) {
		s.attachSpans(spans)
		return chain, nil
	}
	before, had := s.len, s.len/s.cache.pageTokens
	err := s.Grow(ctx, total*s.cache.pageTokens)
	if err == nil {
		err = s.readSpans(ctx, spans, had, total)
	}
	if err != nil {
		s.Truncate(before)
		return nil, err
	}
	s.Commit(total * s.cache.pageTokens)
	return chain, nil
}

// fits reports whether memory for this number of pages and for the pages of one spilled
// segment is within the memory limit.
func (c *Cache) fits(pages int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.mayBeCold || c.hotLimit <= 0 || int64(c.liveSlabs+pages+c.SegmentPages())*int64(c.slabBytes) <= c.hotLimit
}

// attachSpans replaces the pages of the sequence by spans on flash.
func (s *Seq) attachSpans(spans []segment.Span) {
	s.Truncate(0)
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range spans {
		s.attach(p.File.Retain(), p.Pages)
	}
}

// readSpans reads the pages of spans from page had on, several layers in parallel.
func (s *Seq) readSpans(ctx context.Context, spans []segment.Span, had, total int) error {
	s.cache.mu.Lock()
	// Pages that are not committed stay in memory; committed ones may be spilled meanwhile.
	into := append(make([]*slab, had), s.hot[len(s.hot)-(total-had):]...)
	s.cache.beginUse()
	s.cache.mu.Unlock()
	defer s.cache.leave()
	frame, buffers := s.cache.restoreBuffers(spans)
	if frame != nil {
		defer frame.Free()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	grant, _ := s.cache.scheduler().Admit(prefetch.Awaited, (total-had)*s.cache.slabBytes)
	defer s.cache.scheduler().Done(grant)
	type layerRead struct {
		span         segment.Span
		first, layer int // number of the span's first page in the sequence
	}
	work := make(chan layerRead)
	var readers sync.WaitGroup
	for _, buffer := range buffers {
		readers.Go(func() {
			for j := range work {
				if err := s.cache.readLayer(j.span, into, j.first, had, j.layer, buffer); err != nil {
					cancel(err)
				}
			}
		})
	}
	first := 0
	for _, p := range spans {
		for l := range s.cache.layerOffsets {
			if first+p.Pages > had && s.cache.PageBytes(l) > 0 && ctx.Err() == nil {
				work <- layerRead{p, first, l}
			}
		}
		first += p.Pages
	}
	close(work)
	readers.Wait()
	return context.Cause(ctx)
}

// restoreBuffers allocates a buffer for each reader, for fewer readers if memory is
// short. Without any memory, it returns one nil buffer: the reader then reads page by
// page into the slabs.
func (c *Cache) restoreBuffers(spans []segment.Span) (*tiering.Frame, [][]byte) {
	size := 0
	for _, p := range spans {
		for l := range c.layerOffsets {
			size = max(size, p.Pages*c.PageBytes(l))
		}
	}
	size = vfs.DirectSize(size)
	for n := restoreReaders; n > 0; n /= 2 {
		frame, err := tiering.Alloc(c.budget, tiering.KVFrames, n*size)
		if err != nil {
			continue
		}
		buffers := make([][]byte, n)
		for i := range buffers {
			buffers[i] = frame.Bytes()[i*size : (i+1)*size]
		}
		return frame, buffers
	}
	return nil, make([][]byte, 1)
}

// readLayer reads a layer of a span that begins with page first, and copies the pages
// from had on into slabs. The pages pass through buffer unless it is nil.
func (c *Cache) readLayer(p segment.Span, into []*slab, first, had, layer int, buffer []byte) error {
	n := c.PageBytes(layer)
	if buffer != nil {
		if err := p.File.ReadLayer(layer, p.Pages, buffer); err != nil {
			return err
		}
	}
	for i := max(0, had-first); i < p.Pages; i++ {
		data := c.page(into[first+i], layer)
		switch {
		case buffer != nil:
			copy(data, buffer[i*n:])
			continue
		case first+i == had: // the page may have tokens, which stay if it is damaged
			data = make([]byte, n)
		}
		if err := readPage(p.File, layer, i, data); err != nil {
			return err
		}
		if first+i == had {
			copy(c.page(into[had], layer), data)
		}
	}
	return nil
}
