package kv

import (
	"errors"

	"github.com/llmrun/llmrun/store/vfs"
)

// PageOnFlash returns the most that the pages of one position in all layers take in a file of
// spilled pages.
func (c *Cache) PageOnFlash() (n int64) {
	for l := range c.layerOffsets {
		n += vfs.DirectSize(int64(c.PageBytes(l)))
	}
	return n
}

// SpillNeed returns the bytes that must be written to flash before the sequence has length n, and
// those of its pages that are written.
func (s *Seq) SpillNeed(n int) (need, written int64) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spill == nil || c.hotLimit <= 0 {
		return 0, 0
	}
	c.pollWriter()
	c.pollSave()
	missing := max(0, s.pages(n)-s.coldPages-len(s.hot)) - c.slabsLeft()
	ahead, own := 0, 0
	for other := range c.seqs {
		if other.ofSave {
			continue
		}
		pages, _ := other.writtenPages()
		ahead += pages
		if other == s {
			own = s.coldPages + pages
		}
	}
	each := c.PageOnFlash()
	return int64(max(0, missing-ahead)) * each, int64(own) * each
}

// spillsLeft returns the bytes of spills that a sequence of the whole context needs yet if its first
// pages are those of s on flash. Saved pages do not count, because the next sequence may not begin
// with them. The caller holds c.mu.
func (s *Seq) spillsLeft() int64 {
	c := s.cache
	if c.spill == nil || c.hotLimit <= 0 {
		return 0
	}
	pages := s.pages(c.context) - int(c.hotLimit/int64(max(1, c.slabBytes)))
	return int64(max(0, pages-s.coldPages-s.aheadPages())) * c.PageOnFlash()
}

// refusedWrite is the error of a write that [Scratch.LimitWrites] refuses.
type refusedWrite struct{ error }

// Unwrap returns the reason.
func (r refusedWrite) Unwrap() error { return r.error }

// isTight reports whether a write that failed lacked room, so that a smaller one may succeed.
func isTight(err error) bool {
	var refused refusedWrite
	return errors.As(err, &refused) || vfs.IsDiskFull(err)
}
