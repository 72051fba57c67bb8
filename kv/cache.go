package kv

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/llmrun/llmrun/tiering"
)

// BlockTokens is how many tokens attention looks at in one step, and the
// smallest unit of a page. It is part of the arithmetic contract: another
// number gives other rounding.
const BlockTokens = 64

// PageTokens is how many tokens a page holds.
const PageTokens = BlockTokens

// slabBytes is how much memory the cache takes from the system at once. Small
// models get many pages out of one slab; a page larger than a slab gets a
// frame of its own.
const slabBytes = 2 << 20

// ErrClosed is returned by a sequence or cache that was closed.
var ErrClosed = errors.New("kv: closed")

// Shape is the size of the keys and values of one token.
type Shape struct {
	HeadDim int
	KVHeads []int // per layer; 0 where a layer keeps no keys
	Format  Format
}

// blockBytes returns the size of a block of a layer: keys and values of every
// head in turn.
func (s Shape) blockBytes(layer int) int {
	return s.KVHeads[layer] * s.Format.BlockBytes(s.HeadDim)
}

// Share returns the bytes of one head in a block of a page of a layer: what
// Block, or Block8, shows as numbers. The page may lie anywhere in memory that
// is aligned to 64 bytes.
func (s Shape) Share(page []byte, layer, head, block int) []byte {
	n := s.Format.BlockBytes(s.HeadDim)
	at := block*s.blockBytes(layer) + head*n
	return page[at : at+n : at+n]
}

// TokenBytes returns the bytes that one token takes over all layers.
func (s Shape) TokenBytes() int64 {
	var n int64
	for l := range s.KVHeads {
		n += int64(s.blockBytes(l))
	}
	return n / BlockTokens
}

// Cache hands out pages to sequences and takes them back.
type Cache struct {
	shape  Shape
	budget *tiering.Budget

	mu     sync.Mutex
	slabs  map[*byte]*slab  // by the first byte of each of their pages
	free   map[int][][]byte // unused pages by their size
	live   int              // pages held by sequences
	closed bool
}

// slab is memory that pages are cut from.
type slab struct {
	frame *tiering.Frame
	pages int // that it has
	free  int // of them that are counted as unused, while Trim counts
}

// NewCache returns an empty cache. Its pages are charged to budget as hot KV.
func NewCache(shape Shape, budget *tiering.Budget) (*Cache, error) {
	for l, heads := range shape.KVHeads {
		if heads < 0 || shape.HeadDim < 1 || heads > math.MaxInt32/(8*PageTokens)/shape.HeadDim {
			return nil, fmt.Errorf("kv: layer %d: %d heads of %d elements are out of range", l, heads, shape.HeadDim)
		}
	}
	return &Cache{shape: shape, budget: budget, slabs: map[*byte]*slab{}, free: map[int][][]byte{}}, nil
}

// Shape returns the sizes that the cache was made for.
func (c *Cache) Shape() Shape { return c.shape }

// take returns an unused page of a layer, from a new slab if there is none.
func (c *Cache) take(layer int) ([]byte, error) {
	n := c.shape.blockBytes(layer)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if len(c.free[n]) == 0 {
		if err := c.addSlab(n); err != nil {
			return nil, err
		}
	}
	pages := c.free[n]
	page := pages[len(pages)-1]
	c.free[n] = pages[:len(pages)-1]
	c.live++
	return page, nil
}

// addSlab takes memory for pages of n bytes from the system.
func (c *Cache) addSlab(n int) error {
	count := max(1, slabBytes/n)
	frame, err := tiering.Alloc(c.budget, tiering.KVHot, count*n)
	if err != nil && count > 1 { // near the limit one page may still fit
		count = 1
		frame, err = tiering.Alloc(c.budget, tiering.KVHot, n)
	}
	if err != nil {
		return fmt.Errorf("kv: no room for %d more tokens: %w", PageTokens, err)
	}
	s := &slab{frame: frame, pages: count}
	all := frame.Bytes()
	for i := range count {
		page := all[i*n : (i+1)*n : (i+1)*n]
		c.slabs[&page[0]] = s
		c.free[n] = append(c.free[n], page)
	}
	return nil
}

// Trim gives memory back to the system that no sequence uses.
func (c *Cache) Trim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.slabs {
		s.free = 0
	}
	for _, pages := range c.free {
		for _, page := range pages {
			c.slabs[&page[0]].free++
		}
	}
	for size, pages := range c.free {
		c.free[size] = slices.DeleteFunc(pages, func(page []byte) bool {
			s := c.slabs[&page[0]]
			if s.free < s.pages {
				return false
			}
			delete(c.slabs, &page[0])
			if s.pages--; s.pages == 0 {
				s.frame.Free()
			}
			s.free = s.pages // its other pages go as well
			return true
		})
	}
}

// put takes a page back.
func (c *Cache) put(page []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.free[len(page)] = append(c.free[len(page)], page)
	c.live--
}

// Close gives all memory back to the system. Sequences of the cache must not
// be used afterwards.
func (c *Cache) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.slabs {
		if s.pages > 0 {
			s.frame.Free()
			s.pages = 0 // the slab is there once for each of its pages
		}
	}
	c.slabs, c.free, c.closed = nil, nil, true
}
