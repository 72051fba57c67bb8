package kv

import "context"

// Seq is the keys and values of one sequence of tokens: a prefix of pages on
// flash, which may be empty, and behind it pages in memory. The page that new
// tokens are put into is always in memory.
type Seq struct {
	cache *Cache
	cold  []Span
	hot   []*slab        // behind the cold pages
	len   int            // tokens stored in every layer
	used  uint64         // the cache's clock when it grew last
	saved []savedSegment // chunks that hold pages in memory as well, in order

	// All below follows from the above and is kept for those who read.
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

// Len returns the number of tokens that are stored.
func (s *Seq) Len() int { return s.len }

// Fork returns a sequence with the same tokens. It shares all pages; whoever
// goes on writing into one that is not full gets a copy of it.
func (s *Seq) Fork() *Seq {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &Seq{cache: c, len: s.len, used: s.used, coldPages: s.coldPages, version: s.version}
	f.cold = append(f.cold, s.cold...)
	for _, p := range f.cold {
		p.segment.refs++
	}
	f.hot = append(f.hot, s.hot[:max(0, s.pages(s.len)-s.coldPages)]...)
	for _, r := range f.hot {
		r.refs++
	}
	c.seqs[f] = struct{}{}
	return f
}

// pages returns how many pages so many tokens take.
func (s *Seq) pages(tokens int) int { return (tokens + s.cache.pageTokens - 1) / s.cache.pageTokens }

// Grow makes room for tokens up to length n. When memory runs out, the oldest
// pages in memory go to flash, if they can; else, and when ctx ends meanwhile, the
// sequence keeps what it had.
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
	for s.coldPages+len(s.hot) < s.pages(n) {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := c.roomForSlab()
		if err != nil {
			return err
		}
		s.hot = append(s.hot, r)
	}
	return nil
}

// ownLast makes the page that the next token goes into, if it has tokens
// already, one that is in memory and that no other sequence sees.
func (s *Seq) ownLast(ctx context.Context) error {
	c := s.cache
	if s.len%c.pageTokens == 0 {
		return nil
	}
	if s.len < s.coldPages*c.pageTokens {
		return s.unspillLast(ctx)
	}
	i := s.len/c.pageTokens - s.coldPages
	if s.hot[i].refs == 1 {
		return nil
	}
	r, err := c.roomForSlab()
	if err != nil {
		return err
	}
	i = s.len/c.pageTokens - s.coldPages // pages before it may have been spilled
	copy(r.data, s.hot[i].data)
	c.releaseSlab(s.hot[i])
	s.hot[i] = r
	return nil
}

// Put stores the keys and values of the token at position pos in one layer;
// k and v are [kvHeads, headDim]. Room must have been made by Grow.
func (s *Seq) Put(layer, pos int, k, v []float32) {
	d, at := s.cache.shape.HeadDim, pos%BlockTokens
	for h := range s.cache.shape.KVHeads[layer] {
		s.cache.shape.Format.put(s.HeadBlock(layer, h, pos/BlockTokens), at, k[h*d:(h+1)*d], v[h*d:(h+1)*d])
	}
}

// HeadBlock returns the bytes of one head in block i, which is in memory.
func (s *Seq) HeadBlock(layer, head, i int) []byte {
	c := s.cache
	blocks := c.PageBlocks()
	page := c.page(s.hot[i/blocks-s.coldPages], layer)
	return c.shape.HeadBlock(page, layer, head, i%blocks)
}

// Block returns the keys and values of one head for the tokens of block i of a
// cache in F32, both [BlockTokens, headDim]. Rows of tokens that were not put
// hold anything.
func (s *Seq) Block(layer, head, i int) (k, v []float32) {
	return s.cache.shape.Block(s.HeadBlock(layer, head, i))
}

// Block8 is Block for a cache in K8V8.
func (s *Seq) Block8(layer, head, i int) Block8 {
	return s.cache.shape.Block8(s.HeadBlock(layer, head, i))
}

// Commit says that tokens up to length n were put in every layer.
func (s *Seq) Commit(n int) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	s.len = n
}

// Truncate forgets all tokens from position n on and gives back pages that
// became empty.
func (s *Seq) Truncate(n int) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	s.len = min(s.len, n)
	keep := max(0, s.pages(n)-s.coldPages)
	for i := keep; i < len(s.hot); i++ {
		c.releaseSlab(s.hot[i])
		s.hot[i] = nil
	}
	s.hot = s.hot[:min(keep, len(s.hot))]
	s.cutCold(s.pages(n))
	s.cutSaved(s.len / c.pageTokens)
}

// Close gives back all pages.
func (s *Seq) Close() {
	s.Truncate(0)
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	delete(s.cache.seqs, s)
}
