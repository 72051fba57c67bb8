package kv

import (
	"context"
	"sync"

	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// restoreReaders is how many layers are read from flash at a time.
const restoreReaders = 4

// Restore makes a sequence hold what parts hold, which begin with its first token
// and have more tokens than it. Tokens that it has already are the same. It
// returns the chain of those chunks that it holds as wholes. Pages go into memory,
// each of them verified, if there is room for them within what may be there;
// otherwise they stay where they are and are verified when they are used. On an
// error the sequence keeps what it had.
func (s *Seq) Restore(ctx context.Context, parts []segment.Span) (Chain, error) {
	var chain Chain
	total := 0
	for _, p := range parts {
		if p.Pages == p.File.Pages() {
			chain = append(chain, segment.Ref{ID: p.File.ID(), Pages: p.Pages})
		}
		total += p.Pages
	}
	if !s.cache.fits(total) {
		s.attachSpans(parts)
		return chain, nil
	}
	kept, had := s.len, s.len/s.cache.pageTokens
	err := s.Grow(ctx, total*s.cache.pageTokens)
	if err == nil {
		err = s.readSpans(ctx, parts, had, total)
	}
	if err != nil {
		s.Truncate(kept)
		return nil, err
	}
	s.Commit(total * s.cache.pageTokens)
	return chain, nil
}

// fits reports whether so many pages may be in memory, with as many beside them as
// are spilled at a time.
func (c *Cache) fits(pages int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.mayBeCold || c.hotLimit <= 0 || int64(c.liveSlabs+pages+c.SegmentPages())*int64(c.slabBytes) <= c.hotLimit
}

// attachSpans makes parts the pages of a sequence, as they lie on flash.
func (s *Seq) attachSpans(parts []segment.Span) {
	s.Truncate(0)
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range parts {
		s.attach(p.File.Retain(), p.Pages)
	}
}

// readSpans reads the pages of parts from page had on, some layers at a time.
func (s *Seq) readSpans(ctx context.Context, parts []segment.Span, had, total int) error {
	s.cache.mu.Lock()
	// What is not committed stays in memory. What is may go to flash meanwhile.
	into := append(make([]*slab, had), s.hot[len(s.hot)-(total-had):]...)
	s.cache.mu.Unlock()
	frame, buffers := s.cache.restoreBuffers(parts)
	if frame != nil {
		defer frame.Free()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type job struct {
		part         segment.Span
		first, layer int // page of the sequence that the part begins with
	}
	jobs := make(chan job)
	var readers sync.WaitGroup
	for _, buffer := range buffers {
		readers.Go(func() {
			for j := range jobs {
				if err := s.cache.readLayer(j.part, into, j.first, had, j.layer, buffer); err != nil {
					cancel(err)
				}
			}
		})
	}
	first := 0
	for _, p := range parts {
		for l := range s.cache.layerOffsets {
			if first+p.Pages > had && s.cache.PageBytes(l) > 0 && ctx.Err() == nil {
				jobs <- job{p, first, l}
			}
		}
		first += p.Pages
	}
	close(jobs)
	readers.Wait()
	return context.Cause(ctx)
}

// restoreBuffers takes memory that layers of parts pass through, for as many readers
// as there is memory for. Where there is none, one reader does without: it reads
// page by page to where they stay.
func (c *Cache) restoreBuffers(parts []segment.Span) (*tiering.Frame, [][]byte) {
	size := 0
	for _, p := range parts {
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

// readLayer reads a layer of a part that begins with page first, and keeps the
// pages from had on. They pass through a buffer, unless that is nil.
func (c *Cache) readLayer(p segment.Span, into []*slab, first, had, layer int, buffer []byte) error {
	n := c.PageBytes(layer)
	if buffer != nil {
		if err := p.File.ReadLayer(layer, p.Pages, buffer); err != nil {
			return err
		}
	}
	for i := max(0, had-first); i < p.Pages; i++ {
		data := c.page(into[first+i], layer)
		if buffer != nil {
			copy(data, buffer[i*n:])
		} else if err := readPage(p.File, layer, i, data); err != nil {
			return err
		}
	}
	return nil
}
