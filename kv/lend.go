package kv

// Memory below the limit that no sequence uses is lent to the reader of picked pages, which keeps
// copies of pages on flash there. A restored conversation whose pages stay on flash thus uses the
// memory that its own pages do not need yet.

// Lend lends slabs that no sequence uses, within the memory limit, until n are lent in all. It
// returns how many are lent now, and how many of these stayed lent, with their bytes, since the
// last call. The cache takes slabs back, the last one first, when a sequence grows, or when its
// limit changes.
func (c *Cache) Lend(n int) (lent, stayed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stayed = c.stayedLent
	for len(c.lent) < n && !c.lendFailed && c.hotLimit > 0 && !c.overLimit(1) {
		r, err := c.unusedSlab()
		if err != nil {
			c.lendFailed = true // until a slab is free again
			break
		}
		c.lent = append(c.lent, r)
	}
	c.stayedLent = len(c.lent)
	return len(c.lent), stayed
}

// LentPage returns the memory for a page of a layer in slab i of those that are lent.
func (c *Cache) LentPage(i, layer int) []byte { return c.page(c.lent[i], layer) }

// overLimit reports whether n more slabs in use or lent exceed the limit. The caller holds c.mu.
func (c *Cache) overLimit(n int) bool {
	return c.hotLimit > 0 && int64(c.liveSlabs+len(c.lent)+n)*int64(c.slabBytes) > c.hotLimit
}

// takeBack frees the last slab that is lent. It reports whether there was one. The caller holds
// c.mu.
func (c *Cache) takeBack() bool {
	last := len(c.lent) - 1
	if last < 0 {
		return false
	}
	c.free = append(c.free, c.lent[last])
	c.lent = c.lent[:last]
	c.stayedLent = min(c.stayedLent, last)
	return true
}

// takeAllBack frees all slabs that are lent. The caller holds c.mu.
func (c *Cache) takeAllBack() {
	for c.takeBack() {
	}
	c.lendFailed = false
}
