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

// Memory is taken from the system in steps of frameStep, the size of a huge page:
// attention walks all of it, and spends a seventh of its time on finding small
// ones. Rows are not a divisor of it, so they follow each other in slabs, which
// grow step by step up to frameCapacity.
const (
	frameStep     = 2 << 20
	frameCapacity = 16 << 20
)

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

// HeadBlock returns the bytes of one head in a block of a page of a layer: what
// Block, or Block8, shows as numbers. The page may lie anywhere in memory that
// is aligned to 64 bytes.
func (s Shape) HeadBlock(page []byte, layer, head, block int) []byte {
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

// Options are what the owner of a cache decides.
type Options struct {
	// PageTokens is how many tokens a page holds, a multiple of BlockTokens; 0
	// means BlockTokens.
	PageTokens int
	// Hot is the most memory that pages take as long as older ones can go to
	// flash, 0 if only the budget limits it.
	Hot int64
	// Spill is where pages go for which there is no memory, nil if they cannot go
	// anywhere. The cache closes it.
	Spill Spiller
	// MayBeCold says that pages may be on flash although Spill is not set.
	MayBeCold bool
}

// Cache hands out pages to sequences and takes them back. Pages of one place in
// all layers belong together, as a row: a token needs all of them or none.
type Cache struct {
	shape        Shape
	budget       *tiering.Budget
	pageTokens   int   // of a page
	layerOffsets []int // [layer] where its page lies in a row
	slabBytes    int   // of a row

	mu        sync.Mutex
	spill     Spiller
	mayBeCold bool
	hotLimit  int64 // most bytes of rows in use; 0 = no limit
	frames    map[*slabFrame]struct{}
	lastFrame *slabFrame // that grows
	free      []*slab
	liveSlabs int // rows held by sequences
	seqs      map[*Seq]struct{}
	clock     uint64 // counts calls of Grow
	changes   uint64 // counts changes of what is cold
	written   int64  // bytes that were spilled
	failed    error  // of the last attempt that did not succeed
	closed    bool
}

// slab is the pages of one place in all layers.
type slab struct {
	frame *slabFrame
	index int // in the slab
	data  []byte
	refs  int // sequences that hold it
}

// slabFrame is memory that rows are cut from, one after the other.
type slabFrame struct {
	frame    *tiering.Frame
	capacity int // rows that fit when it has grown as far as it can
	slabs    int // that were cut
	keep     int // of them: up to the last that is in use, while trim counts
}

// NewCache returns an empty cache. Its pages are charged to budget as hot KV.
func NewCache(shape Shape, budget *tiering.Budget, o Options) (*Cache, error) {
	if o.PageTokens == 0 {
		o.PageTokens = BlockTokens
	}
	if o.PageTokens < 0 || o.PageTokens%BlockTokens != 0 || o.PageTokens > maxPageTokens {
		return nil, fmt.Errorf("kv: a page of %d tokens: it must be a multiple of %d up to %d", o.PageTokens, BlockTokens, maxPageTokens)
	}
	c := &Cache{shape: shape, budget: budget, pageTokens: o.PageTokens, spill: o.Spill, mayBeCold: o.MayBeCold || o.Spill != nil, hotLimit: o.Hot, frames: map[*slabFrame]struct{}{}, seqs: map[*Seq]struct{}{}}
	for l, heads := range shape.KVHeads {
		if heads < 0 || shape.HeadDim < 1 || heads > math.MaxInt32/(8*o.PageTokens)/shape.HeadDim {
			return nil, fmt.Errorf("kv: layer %d: %d heads of %d elements are out of range", l, heads, shape.HeadDim)
		}
		c.layerOffsets = append(c.layerOffsets, c.slabBytes)
		c.slabBytes += c.PageBytes(l)
	}
	return c, nil
}

// maxPageTokens bounds the size of a page.
const maxPageTokens = 1 << 14

// Shape returns the sizes that the cache was made for.
func (c *Cache) Shape() Shape { return c.shape }

// PageTokens returns how many tokens a page holds.
func (c *Cache) PageTokens() int { return c.pageTokens }

// PageBlocks returns how many blocks that is.
func (c *Cache) PageBlocks() int { return c.pageTokens / BlockTokens }

// PageBytes returns the size of a page of a layer.
func (c *Cache) PageBytes(layer int) int { return c.PageBlocks() * c.shape.blockBytes(layer) }

// MayBeCold reports whether pages may be on flash.
func (c *Cache) MayBeCold() bool { return c.mayBeCold }

// page returns the page of a layer.
func (c *Cache) page(r *slab, layer int) []byte {
	at, n := c.layerOffsets[layer], c.PageBytes(layer)
	return r.data[at : at+n : at+n]
}

// takeSlab returns an unused row, from a new slab if there is none. c.mu is held.
func (c *Cache) takeSlab() (*slab, error) {
	if c.closed {
		return nil, ErrClosed
	}
	if len(c.free) == 0 {
		if err := c.growFrames(); err != nil {
			return nil, err
		}
	}
	last := len(c.free) - 1
	r := c.free[last]
	c.free = c.free[:last]
	c.liveSlabs++
	r.refs = 1
	return r, nil
}

// growFrames takes memory for one more row, or some, from the system. c.mu is held.
func (c *Cache) growFrames() error {
	s := c.lastFrame
	if s == nil || s.slabs == s.capacity {
		s = &slabFrame{capacity: max(1, frameCapacity/max(1, c.slabBytes))}
		frame, err := tiering.AllocRoom(c.budget, tiering.KVHot, 0, s.capacity*c.slabBytes)
		if err != nil {
			return c.noRoom(err)
		}
		s.frame = frame
	}
	least, most := (s.slabs+1)*c.slabBytes, s.capacity*c.slabBytes
	if c.hotLimit > 0 { // no more than may be used
		most = max(least, min(most, (s.slabs+int(c.hotLimit/int64(max(1, c.slabBytes)))-c.liveSlabs)*c.slabBytes))
	}
	size := min((least+frameStep-1)/frameStep*frameStep, most)
	err := s.frame.Resize(size)
	if err != nil && size > least { // near the limit one row may still fit
		err = s.frame.Resize(least)
	}
	if err != nil {
		if s.slabs == 0 {
			s.frame.Free()
		}
		return c.noRoom(err)
	}
	c.frames[s], c.lastFrame = struct{}{}, s
	c.cutSlabs(s)
	return nil
}

func (c *Cache) noRoom(err error) error {
	return fmt.Errorf("kv: no room for %d more tokens: %w", c.pageTokens, err)
}

// cutSlabs makes rows of what a slab has grown by.
func (c *Cache) cutSlabs(s *slabFrame) {
	all := s.frame.Bytes()
	for at := s.slabs * c.slabBytes; at+c.slabBytes <= len(all) && s.slabs < s.capacity; at += c.slabBytes {
		c.free = append(c.free, &slab{frame: s, index: s.slabs, data: all[at : at+c.slabBytes : at+c.slabBytes]})
		s.slabs++
	}
}

// releaseSlab takes back a sequence's hold on a row. c.mu is held.
func (c *Cache) releaseSlab(r *slab) {
	if r.refs--; r.refs == 0 {
		c.free = append(c.free, r)
		c.liveSlabs--
	}
}

// Trim gives memory back to the system that no sequence uses.
func (c *Cache) Trim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trim()
}

// trim is Trim with c.mu held. Of a slab that some rows of are in use, those
// behind the last of these go.
func (c *Cache) trim() {
	for s := range c.frames {
		s.keep = s.slabs
	}
	slices.SortFunc(c.free, func(a, b *slab) int { return b.index - a.index })
	c.free = slices.DeleteFunc(c.free, func(r *slab) bool {
		last := r.index == r.frame.keep-1
		if last {
			r.frame.keep--
		}
		return last
	})
	for s := range c.frames {
		if s.keep == s.slabs {
			continue
		}
		s.slabs = s.keep
		if s.slabs > 0 {
			_ = s.frame.Resize(s.slabs * c.slabBytes) // giving back is never refused
			continue
		}
		delete(c.frames, s)
		s.frame.Free()
		if c.lastFrame == s {
			c.lastFrame = nil
		}
	}
}

// Close gives all memory back to the system. Sequences of the cache must not
// be used afterwards.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	for s := range c.frames {
		s.frame.Free()
	}
	c.frames, c.lastFrame, c.free, c.closed = nil, nil, nil, true
	if c.spill == nil {
		return nil
	}
	return c.spill.Close()
}
