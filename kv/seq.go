package kv

import "context"

// Seq holds the keys and values of one sequence of tokens: a prefix of pages on
// flash, which may be empty, followed by pages in memory. The page that receives new
// tokens is always in memory.
type Seq struct {
	cache *Cache
	cold  []Span
	hot   []*slab        // pages in memory, after the cold ones
	len   int            // tokens stored in every layer
	used  uint64         // the cache's clock at the last Grow
	saved []savedSegment // written segments whose pages are in memory, in order

	ofSave bool // it keeps the pages of a [Save]

	// Derived from the fields above.
	coldPages int
	version   uint64
}

// NewSeq returns an empty sequence.
func (c *Cache) NewSeq() *Seq {
	s := &Seq{cache: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seqs[s] = struct{}{}
	return s
}

// Len returns the number of stored tokens.
func (s *Seq) Len() int { return s.len }

// Fork returns a sequence with the same tokens. Both share all pages. A sequence that
// writes into a shared page copies it first.
func (s *Seq) Fork() *Seq {
	f := s.cache.NewSeq()
	f.Follow(s)
	return f
}

// Follow makes an empty sequence share all pages of another one, as a Fork does.
func (s *Seq) Follow(o *Seq) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	s.follow(o)
}

// follow is Follow; the caller holds c.mu.
func (s *Seq) follow(o *Seq) {
	s.len, s.used, s.coldPages, s.version = o.len, o.used, o.coldPages, o.version
	s.cold = append(s.cold, o.cold...)
	for _, p := range s.cold {
		p.segment.refs++
	}
	s.hot = append(s.hot, o.hot[:max(0, o.pages(o.len)-o.coldPages)]...)
	for _, r := range s.hot {
		r.refs++
	}
	for _, k := range o.saved { // the fork does not write these pages again
		k.segment.refs++
		s.saved = append(s.saved, k)
	}
	s.cutSaved(s.len / s.cache.pageTokens)
}

// Take makes the rows from the sequence's length to n those of a sequence that follows it. Both have made room for
// them with Grow; the other sequence gets the sequence's own rows.
func (s *Seq) Take(f *Seq, n int) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	for page := s.len / c.pageTokens; page < s.pages(n); page++ {
		a, b := &s.hot[page-s.coldPages], &f.hot[page-f.coldPages]
		*a, *b = *b, *a
	}
}

// SharedPages returns how many of their first pages two sequences share, in memory and on flash. The
// last of them may be partly filled.
func (s *Seq) SharedPages(o *Seq) (n int) {
	for i := range min(len(s.cold), len(o.cold)) {
		a, b := &s.cold[i], &o.cold[i]
		if a.segment != b.segment {
			return n
		}
		if n += min(a.Pages, b.Pages); a.Pages != b.Pages {
			return n
		}
	}
	if s.coldPages != o.coldPages {
		return n
	}
	for i := range min(len(s.hot), len(o.hot)) {
		if s.hot[i] != o.hot[i] {
			break
		}
		n++
	}
	return n
}

// pages returns the number of pages that a number of tokens needs.
func (s *Seq) pages(tokens int) int { return (tokens + s.cache.pageTokens - 1) / s.cache.pageTokens }

// Grow makes room for tokens up to length n. If memory runs out, the cache spills its
// oldest pages to flash. If that is impossible, or if ctx ends, Grow returns an error,
// the stored tokens remain, and the pages that it got are free again. While it reads or waits for flash, the cache is free
// for other sequences.
func (s *Seq) Grow(ctx context.Context, n int) error {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	s.used = c.clock
	if n > s.len {
		if err := s.ownLast(ctx); err != nil {
			return err
		}
	}
	had := len(s.hot) + s.coldPages
	need := s.pages(n) - had
	for s.coldPages+len(s.hot) < s.pages(n) {
		if err := ctx.Err(); err != nil {
			s.releasePages(had)
			return err
		}
		r, err := c.roomForSlab(ctx, need)
		if err != nil {
			s.releasePages(had)
			return err
		}
		s.hot = append(s.hot, r)
	}
	if more := len(s.hot) + s.coldPages - had; more > 0 {
		c.behind.noteGrowth(more)
	}
	c.writeAhead()
	return nil
}

// ownLast prepares a partly filled last page for writing: it brings the page into
// memory, and copies it if another sequence shares it.
func (s *Seq) ownLast(ctx context.Context) error {
	c := s.cache
	if s.len%c.pageTokens == 0 {
		return nil
	}
	if s.len < s.coldPages*c.pageTokens {
		return s.unspillLast(ctx)
	}
	if s.hot[s.len/c.pageTokens-s.coldPages].refs == 1 {
		return nil
	}
	r, err := c.roomForSlab(ctx, 1)
	if err != nil {
		return err
	}
	shared := &s.hot[s.len/c.pageTokens-s.coldPages] // pages before it may have been spilled
	if (*shared).refs == 1 {                         // those who shared it have gone meanwhile
		c.releaseSlab(r)
		return nil
	}
	copy(r.data, (*shared).data)
	c.releaseSlab(*shared)
	*shared = r
	return nil
}

// Put stores the keys and values of the token at position pos in one layer; k and v
// are [kvHeads, headDim]. The caller has made room with Grow.
func (s *Seq) Put(layer, pos int, k, v []float32) {
	d, at := s.cache.shape.Dim(layer), pos%BlockTokens
	if s.cache.shape.Latent > 0 {
		s.cache.shape.Format.putLatent(s.HeadBlock(layer, 0, pos/BlockTokens), at, k[:d])
		return
	}
	for h := range s.cache.shape.KVHeads[layer] {
		s.cache.shape.Format.put(s.HeadBlock(layer, h, pos/BlockTokens), at, k[h*d:(h+1)*d], v[h*d:(h+1)*d])
	}
}

// HeadBlock returns one KV head block of block i, which must be in memory.
func (s *Seq) HeadBlock(layer, head, i int) []byte {
	c := s.cache
	blocks := c.PageBlocks()
	page := c.page(s.hot[i/blocks-s.coldPages], layer)
	return c.shape.HeadBlock(page, layer, head, i%blocks)
}

// Block returns the keys and values of one head in block i of an F32 cache, both
// [BlockTokens, headDim]. Rows without a stored token have undefined contents.
func (s *Seq) Block(layer, head, i int) (k, v []float32) {
	return s.cache.shape.Format.Block32(s.HeadBlock(layer, head, i), s.cache.shape.Dim(layer))
}

// Block8 is Block for a cache with a quantized format.
func (s *Seq) Block8(layer, head, i int) Block8 {
	return s.cache.shape.Format.Block8(s.HeadBlock(layer, head, i), s.cache.shape.Dim(layer))
}

// Commit sets the length to n, after Put has stored these tokens in every layer.
func (s *Seq) Commit(n int) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	s.len = n
}

// releasePages releases the pages in memory after the sequence's first n pages. The caller holds c.mu.
func (s *Seq) releasePages(n int) {
	keep := min(max(0, n-s.coldPages), len(s.hot))
	for i := keep; i < len(s.hot); i++ {
		s.cache.releaseSlab(s.hot[i])
		s.hot[i] = nil
	}
	s.hot = s.hot[:keep]
}

// Truncate removes all tokens from position n on and releases the pages that become
// empty.
func (s *Seq) Truncate(n int) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if job := s.truncate(n); job != nil {
		c.await(context.Background(), job.ended) // for the piece that is being written
		c.takeResult(job)
	}
}

// truncate is Truncate, but does not wait for a job that writes the pages, which it returns. The
// caller holds c.mu.
func (s *Seq) truncate(n int) *spillJob {
	s.cut(n)
	return s.cache.cancelNeedlessWrite()
}

// cut is truncate, but leaves the job alone.
func (s *Seq) cut(n int) {
	s.len = min(s.len, n)
	s.releasePages(s.pages(n))
	s.cutCold(s.pages(n))
	s.cutSaved(s.len / s.cache.pageTokens)
}

// Close releases all pages.
func (s *Seq) Close() {
	s.Truncate(0)
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	delete(s.cache.seqs, s)
}
