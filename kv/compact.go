package kv

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/llmrun/llmrun/tiering"
)

// A frame shrinks only to its last slab in use, and the slabs of the newest pages, which leave memory last, are
// cut last. So a cache that spills must move them to earlier slabs, or its memory stays.

// Compact moves pages to other slabs so that they need the fewest bytes of frames, and returns the rest to the
// operating system. Until it returns, no goroutine may read pages or store tokens, and none may grow or
// restore a sequence; saves and spills may go on.
func (c *Cache) Compact() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.compact()
}

// Yield returns at least so many bytes of frames to the budget: pages move to flash, the least recently used
// first, and the others move together. What it cannot return it leaves, and returns the error of the write, or
// that there is nothing to write. The caller keeps to the conditions of Compact.
func (c *Cache) Yield(ctx context.Context, bytes int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.compact()
	c.takeAllBack()
	each := int64(max(1, c.slabBytes))
	slabs := int((bytes+each-1)/each) + 1 // frames end with a part of a page of memory
	for most := c.liveSlabs - slabs; c.liveSlabs > most; {
		if err := c.spillOldest(ctx, slabs); err != nil {
			return err
		}
	}
	return nil
}

// compact is Compact; the caller holds c.mu.
func (c *Cache) compact() {
	if c.closed {
		return
	}
	c.movePages()
	c.trim()
	for s := range c.frames { // there is at most one that is not whole, unless slabs could not move
		if c.lastFrame == nil || s.slabs < c.lastFrame.slabs {
			c.lastFrame = s
		}
	}
}

// movePages moves pages from the last slabs to the first that are free. The caller holds c.mu.
func (c *Cache) movePages() {
	order := c.slabOrder()
	free := slices.SortedFunc(slices.Values(c.free), order)
	movable := c.movableSlabs()
	slices.SortFunc(movable, order)
	moved := map[*slab]*slab{}
	for len(free) > 0 && len(movable) > 0 {
		to, from := free[0], movable[len(movable)-1]
		if order(to, from) > 0 {
			break
		}
		copy(to.data, from.data)
		to.refs, from.refs = from.refs, 0
		moved[from] = to
		free, movable = free[1:], movable[:len(movable)-1]
	}
	if len(moved) == 0 {
		return
	}
	for s := range c.seqs {
		for i, r := range s.hot {
			if to := moved[r]; to != nil {
				s.hot[i] = to
			}
		}
	}
	c.free = slices.DeleteFunc(c.free, func(r *slab) bool { return r.refs > 0 })
	for from := range moved {
		c.free = append(c.free, from)
	}
}

// slabOrder returns the order in which slabs are filled: those of frames that are fullest first, because
// they keep most of their memory anyway. The caller holds c.mu.
func (c *Cache) slabOrder() func(a, b *slab) int {
	used, rank := map[*slabFrame]int{}, map[*slabFrame]int{}
	for s := range c.frames {
		used[s] = s.slabs
	}
	for _, r := range c.free {
		used[r.frame]--
	}
	frames := slices.Collect(maps.Keys(c.frames))
	slices.SortFunc(frames, func(a, b *slabFrame) int {
		return cmp.Or(cmp.Compare(used[b], used[a]), cmp.Compare(b.slabs, a.slabs))
	})
	for i, s := range frames {
		rank[s] = i
	}
	return func(a, b *slab) int {
		return cmp.Or(cmp.Compare(rank[a.frame], rank[b.frame]), cmp.Compare(a.index, b.index))
	}
}

// movableSlabs returns the slabs that only sequences hold: the writer reads others, or Grow is about to hand
// them out. The caller holds c.mu.
func (c *Cache) movableSlabs() (out []*slab) {
	holders := map[*slab]int{}
	for s := range c.seqs {
		for _, r := range s.hot {
			holders[r]++
		}
	}
	for r, n := range holders {
		if r.refs == n {
			out = append(out, r)
		}
	}
	return out
}

// Spillable returns the bytes of memory that SetHot and Compact can return at most: all but that of pages that
// are not full, which cannot be spilled.
func (c *Cache) Spillable() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	stay := map[*slab]struct{}{}
	for s := range c.seqs {
		for _, r := range s.hot[s.fullHotPages():] {
			stay[r] = struct{}{}
		}
	}
	var held int64
	for s := range c.frames {
		held += tiering.PageUp(int64(len(s.frame.Bytes())))
	}
	slabs := max(1, frameCapacity/max(1, c.slabBytes)) // of a frame
	for n := len(stay); n > 0; n -= slabs {
		held -= tiering.PageUp(int64(min(n, slabs)) * int64(c.slabBytes))
	}
	return max(0, held)
}
