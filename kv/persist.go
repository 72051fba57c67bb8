package kv

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/llmrun/llmrun/kv/chunk"
	"github.com/llmrun/llmrun/store/vfs"
)

// restoreReaders is how many layers are read from flash at a time.
const restoreReaders = 4

var _ Chunk = (*chunk.File)(nil)

// ChunkLayout returns how pages of the cache lie in chunks that are kept.
func (c *Cache) ChunkLayout() chunk.Layout {
	l := chunk.Layout{PageTokens: c.tokens, Format: uint32(c.shape.Format)}
	for i := range c.shape.KVHeads {
		l.PageBytes = append(l.PageBytes, c.PageBytes(i))
	}
	return l
}

// Chain says which kept chunks hold the beginning of a sequence, each behind the
// one before.
type Chain []chunk.Ref

// Pages returns how many pages the chain holds.
func (c Chain) Pages() int {
	n := 0
	for _, r := range c {
		n += r.Pages
	}
	return n
}

// Cut returns the chunks of the chain that lie wholly within the first pages.
func (c Chain) Cut(pages int) Chain {
	for len(c) > 0 && c.Pages() > pages {
		c = c[:len(c)-1]
	}
	return c
}

// Persist keeps the full pages of a sequence of these tokens on flash, where they
// are not kept already, and returns the chain of all. chain is what an earlier
// Persist or Restore returned. An error comes with the chain of what could be
// written.
func (s *Seq) Persist(store *chunk.Store, tokens []int32, chain Chain, durable bool) (_ Chain, err error) {
	page := s.cache.tokens
	pages := min(len(tokens), s.len) / page
	chain = slices.Clip(chain.Cut(pages)) // what is appended must not show in a longer one
	held := s.hold(pages)
	defer held.release()
	var written []chunk.Part // stay open: what is in use does not have to make room for the rest
	defer func() { err = errors.Join(err, chunk.Close(written)) }()
	parent, at := store.Key(), 0
	for i := 0; at < pages; i++ {
		n := min(chunk.MaxPages, pages-at)
		if i < len(chain) {
			n = chain[i].Pages
		}
		f, err := store.Write(parent, at*page, tokens[at*page:(at+n)*page], held.pagesFrom(at), durable)
		if err != nil {
			return chain, err
		}
		written = append(written, chunk.Part{File: f, Pages: n})
		if i == len(chain) {
			chain = append(chain, chunk.Ref{ID: f.ID(), Pages: n})
		}
		parent, at = f.ID(), at+n
	}
	return chain, nil
}

// held is full pages of a sequence, which stay where they are as long as it lasts,
// whatever other sequences do.
type held struct {
	cache *Cache
	cold  []Part
	rows  []*row
}

// hold takes hold of the first pages of a sequence.
func (s *Seq) hold(pages int) *held {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &held{cache: c, cold: slices.Clone(s.cold), rows: slices.Clone(s.rows[:max(0, pages-s.coldPages)])}
	for _, p := range h.cold {
		p.chunk.refs++
	}
	for _, r := range h.rows {
		r.refs++
	}
	return h
}

func (h *held) release() {
	c := h.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range h.cold {
		p.chunk.drop()
	}
	for _, r := range h.rows {
		c.drop(r)
	}
}

// drop says that one user less needs the chunk. c.mu is held.
func (c *sharedChunk) drop() {
	if c.refs--; c.refs == 0 {
		_ = c.Close() // what was in it is not needed
	}
}

// pagesFrom gives the bytes of pages from one on.
func (h *held) pagesFrom(first int) chunk.Pages {
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
			return buffer, readPage(p.chunk, layer, page, buffer)
		}
		return h.cache.page(h.rows[page], layer), nil
	}
}

// readPage reads one page of a chunk and verifies it.
func readPage(c Chunk, layer, page int, data []byte) error {
	from, off, _ := c.LayerRun(layer)
	n, err := from.ReadAt(data, off+int64(page)*int64(len(data)))
	switch {
	case n == len(data):
		return c.Verify(layer, page, data)
	case err == nil:
		return io.ErrUnexpectedEOF
	}
	return err
}

// Restore makes a sequence hold what parts hold, which begin with its first token
// and have more tokens than it. Tokens that it has already are the same. It
// returns the chain of those chunks that it holds as wholes. Pages go into memory,
// each of them verified, if there is room for them within what may be there;
// otherwise they stay where they are and are verified when they are used. On an
// error the sequence keeps what it had.
func (s *Seq) Restore(ctx context.Context, parts []chunk.Part) (Chain, error) {
	var chain Chain
	total := 0
	for _, p := range parts {
		if p.Pages == p.File.Pages() {
			chain = append(chain, chunk.Ref{ID: p.File.ID(), Pages: p.Pages})
		}
		total += p.Pages
	}
	if !s.cache.fits(total) {
		s.attach(parts, total)
		return chain, nil
	}
	kept, had := s.len, s.len/s.cache.tokens
	err := s.Grow(total * s.cache.tokens)
	if err == nil {
		err = s.readParts(ctx, parts, had, total)
	}
	if err != nil {
		s.Truncate(kept)
		return nil, err
	}
	s.Commit(total * s.cache.tokens)
	return chain, nil
}

// fits reports whether so many pages may be in memory, with as many beside them as
// are spilled at a time.
func (c *Cache) fits(pages int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.cold || c.hot <= 0 || int64(c.live+pages+c.ChunkPages())*int64(c.bytes) <= c.hot
}

// attach makes parts the pages of a sequence, as they lie on flash.
func (s *Seq) attach(parts []chunk.Part, total int) {
	s.Truncate(0)
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range parts {
		s.cold = append(s.cold, Part{Pages: p.Pages, chunk: &sharedChunk{Chunk: p.File.Retain(), refs: 1}})
	}
	s.coldPages, s.len = total, total*c.tokens
	s.changed()
}

// readParts reads the pages of parts from page had on, some layers at a time.
func (s *Seq) readParts(ctx context.Context, parts []chunk.Part, had, total int) error {
	s.cache.mu.Lock()
	// What is not committed stays in memory. What is may go to flash meanwhile.
	into := append(make([]*row, had), s.rows[len(s.rows)-(total-had):]...)
	s.cache.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type job struct {
		part         chunk.Part
		first, layer int // page of the sequence that the part begins with
	}
	jobs := make(chan job)
	var readers sync.WaitGroup
	for range restoreReaders {
		readers.Go(func() {
			var buffer []byte
			for j := range jobs {
				var err error
				if buffer, err = s.cache.readLayer(j.part, into, j.first, had, j.layer, buffer); err != nil {
					cancel(err)
				}
			}
		})
	}
	first := 0
	for _, p := range parts {
		for l := range s.cache.at {
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

// readLayer reads a layer of a part that begins with page first, and keeps the
// pages from had on. The buffer is used again.
func (c *Cache) readLayer(p chunk.Part, into []*row, first, had, layer int, buffer []byte) ([]byte, error) {
	n := c.PageBytes(layer)
	if need := n * p.Pages; len(buffer) < need {
		buffer = vfs.AlignDirect(make([]byte, need+vfs.DirectAlign))
	}
	if err := p.File.ReadLayer(layer, p.Pages, buffer); err != nil {
		return buffer, err
	}
	for i := max(0, had-first); i < p.Pages; i++ {
		copy(c.page(into[first+i], layer), buffer[i*n:])
	}
	return buffer, nil
}
