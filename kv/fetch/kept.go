package fetch

import (
	"slices"

	"github.com/llmrun/llmrun/kv"
)

// keptPages is the memory of pages that were picked for earlier tokens: the same number of
// slots for each layer. A layer's cache is its own, because a cache of all layers that is
// smaller than what one token picks would always drop the pages that come next. The first slots
// are in memory of its own, the others in memory that the KV cache lends.
type keptPages struct {
	cache   *kv.Cache
	slab    []byte     // [own slot][layer] pages
	own     int        // slots of a layer in slab
	stride  int        // bytes of a slot of all layers
	offsets []int      // [layer] offset in a slot
	sizes   []int      // [layer] bytes of a page
	slots   int        // slots of a layer
	layers  [][]keptID // [layer] pages that are kept, in the order of index
}

// pageKey identifies a page of a layer, whose bytes never change. Sequences that share a segment
// share its kept pages.
type pageKey struct {
	segment kv.Segment
	page    int
}

// keptID says which page a slot holds.
type keptID struct {
	index int // in its sequence
	slot  int
	pageKey
}

// divide divides memory into slots and forgets all pages.
func (c *keptPages) divide(r *Reader, memory []byte) {
	*c = keptPages{cache: r.Cache, slab: memory, layers: c.layers, offsets: make([]int, r.layers), sizes: make([]int, r.layers)}
	for l := range r.layers {
		c.offsets[l] = c.stride
		if r.keeps(l) {
			c.sizes[l] = r.Cache.PageBytes(l)
			c.stride += c.sizes[l]
		}
	}
	if c.stride > 0 {
		c.own = len(memory) / c.stride
	}
	c.slots = c.own
	if c.layers == nil {
		c.layers = make([][]keptID, r.layers)
	}
	for l := range c.layers {
		clear(c.layers[l])
		c.layers[l] = slices.Grow(c.layers[l][:0], c.slots)
	}
}

// borrow extends the slots to those of a number of pages, as far as the cache lends memory, and
// forgets the pages whose memory the cache has taken back.
func (c *keptPages) borrow(pages int) {
	lent, stayed := c.cache.Lend(pages - c.own)
	if had := c.slots - c.own; stayed < had {
		for l := range c.layers {
			c.layers[l] = slices.DeleteFunc(c.layers[l], func(k keptID) bool { return k.slot >= c.own+stayed })
		}
	}
	c.slots = c.own + lent
}

// find returns the kept page of a key, nil if it is not kept. next is the first kept page that
// may have this index; callers ask for ascending indices.
func (c *keptPages) find(layer int, next *int, index int, key pageKey) []byte {
	kept := c.layers[layer]
	for *next < len(kept) && kept[*next].index < index {
		*next++
	}
	for i := *next; i < len(kept) && kept[i].index == index; i++ {
		if kept[i].pageKey == key {
			return c.memory(layer, kept[i].slot)
		}
	}
	return nil
}

// memory returns the memory of a slot.
func (c *keptPages) memory(layer, slot int) []byte {
	if slot >= c.own {
		return c.cache.LentPage(slot-c.own, layer)
	}
	at, n := slot*c.stride+c.offsets[layer], c.sizes[layer]
	return c.slab[at : at+n : at+n]
}

// offer keeps a copy of a page if a slot is free, or holds the page of another sequence at the same
// place, or one with a lower score.
func (c *keptPages) offer(layer int, id freshKey, data []byte, scores []float32 /* [page] */) {
	kept, slot := c.layers[layer], 0
	if slot = len(kept); slot == c.slots {
		least := c.least(layer, id.index, scores)
		if least < 0 {
			return
		}
		slot = kept[least].slot
		kept = slices.Delete(kept, least, least+1)
	}
	at, _ := slices.BinarySearchFunc(kept, id.index, func(k keptID, index int) int { return k.index - index })
	c.layers[layer] = slices.Insert(kept, at, keptID{id.index, slot, id.pageKey})
	copy(c.memory(layer, slot), data)
}

// least returns the kept page that page index of a sequence replaces, -1 if none. Pages of all
// sequences at the same place have the same score; the one that was read last is in use.
func (c *keptPages) least(layer, index int, scores []float32 /* [page] */) int {
	kept, least := c.layers[layer], -1
	for i := range kept {
		if kept[i].index == index {
			return i
		}
		if least < 0 || scores[kept[i].index] < scores[kept[least].index] {
			least = i
		}
	}
	if least >= 0 && scores[kept[least].index] >= scores[index] {
		return -1
	}
	return least
}

// scoreDecay is the factor by which a score falls with each token: a page that was picked for
// about ten tokens in a row has the highest score.
const scoreDecay = 0.9

// decay lowers all scores.
func decay(scores []float32) {
	for i := range scores {
		scores[i] *= scoreDecay
	}
}
