package kv

// Seq is the keys and values of one sequence of tokens.
type Seq struct {
	cache *Cache
	pages [][][]byte // [layer][page] -> page: the share of each head in turn
	len   int        // tokens stored in every layer
	cap   int        // tokens that the pages have room for
}

// NewSeq returns an empty sequence.
func (c *Cache) NewSeq() *Seq {
	return &Seq{cache: c, pages: make([][][]byte, len(c.shape.KVHeads))}
}

// Len returns the number of tokens that are stored.
func (s *Seq) Len() int { return s.len }

// Grow makes room for tokens up to length n. When memory runs out, the
// sequence keeps what it had.
func (s *Seq) Grow(n int) error {
	for s.cap < n {
		for l := range s.pages {
			if s.cache.shape.KVHeads[l] == 0 || len(s.pages[l]) > s.cap/PageTokens {
				continue // the layer got its page in an attempt that failed later
			}
			page, err := s.cache.take(l)
			if err != nil {
				return err
			}
			s.pages[l] = append(s.pages[l], page)
		}
		s.cap += PageTokens
	}
	return nil
}

// Put stores the keys and values of the token at position pos in one layer;
// k and v are [kvHeads, headDim]. Room must have been made by Grow.
func (s *Seq) Put(layer, pos int, k, v []float32) {
	d, row := s.cache.shape.HeadDim, pos%PageTokens
	for h := range s.cache.shape.KVHeads[layer] {
		s.cache.shape.Format.put(s.Share(layer, h, pos/PageTokens), row, k[h*d:(h+1)*d], v[h*d:(h+1)*d])
	}
}

// Share returns the bytes of one head in block i.
func (s *Seq) Share(layer, head, i int) []byte {
	return s.cache.shape.Share(s.pages[layer][i], layer, head, 0)
}

// Block returns the keys and values of one head for the tokens of block i of a
// cache in F32, both [BlockTokens, headDim]. Rows of tokens that were not put
// hold anything.
func (s *Seq) Block(layer, head, i int) (k, v []float32) {
	return s.cache.shape.Block(s.Share(layer, head, i))
}

// Block8 is Block for a cache in K8V8.
func (s *Seq) Block8(layer, head, i int) Block8 {
	return s.cache.shape.Block8(s.Share(layer, head, i))
}

// Commit says that tokens up to length n were put in every layer.
func (s *Seq) Commit(n int) { s.len = n }

// Truncate forgets all tokens from position n on and gives back pages that
// became empty.
func (s *Seq) Truncate(n int) {
	keep := (n + PageTokens - 1) / PageTokens
	for l, pages := range s.pages {
		for i := keep; i < len(pages); i++ {
			s.cache.put(pages[i])
			pages[i] = nil
		}
		s.pages[l] = pages[:min(keep, len(pages))]
	}
	s.len = min(s.len, n)
	s.cap = min(s.cap, keep*PageTokens)
}

// Close gives back all pages.
func (s *Seq) Close() { s.Truncate(0) }
