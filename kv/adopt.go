package kv

// Adopt makes the first pages of another sequence the pages of s, which loses its own. Both share them,
// as after a Fork. If the other sequence has fewer full pages, Adopt changes nothing and reports false.
func (s *Seq) Adopt(from *Seq, pages int) bool {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if from.len < pages*c.pageTokens {
		return false
	}
	_ = s.truncate(0) // a job that is needless now ends later
	c.clock++
	s.used = c.clock
	for _, span := range from.cold {
		n := min(span.Pages, pages-s.coldPages)
		if n <= 0 {
			break
		}
		span.segment.refs++
		s.cold = append(s.cold, Span{Pages: n, segment: span.segment})
		s.coldPages += n
	}
	for _, r := range from.hot[:max(0, pages-from.coldPages)] {
		r.refs++
		s.hot = append(s.hot, r)
	}
	for _, k := range from.saved {
		if k.end() > pages {
			break
		}
		k.segment.refs++ // these pages are not written again
		s.saved = append(s.saved, k)
	}
	s.len = pages * c.pageTokens
	s.bumpVersion()
	if s.coldPages == from.coldPages {
		s.version = from.version
	}
	return true
}

// ShareSlab replaces a full page of s by that of another sequence, which has the same tokens and bytes, and
// reports whether it did: both pages must be in memory.
func (s *Seq) ShareSlab(from *Seq, page int) bool {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	own, other := page-s.coldPages, page-from.coldPages
	if own < 0 || other < 0 || other >= len(from.hot) || s.hot[own] == from.hot[other] {
		return false
	}
	c.releaseSlab(s.hot[own])
	s.hot[own] = from.hot[other]
	s.hot[own].refs++
	return true
}
