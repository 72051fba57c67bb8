package kv

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/tiering"
)

// BlockTokens is the number of tokens that attention processes in one step, and the
// smallest unit of a page. It is part of the arithmetic contract: a different number
// changes the rounding of results.
const BlockTokens = 64

// A frame grows in steps of frameStep, the size of a huge page, up to frameCapacity.
// Slabs are adjacent, without padding, because the size of a huge page is not a multiple
// of their size. Attention reads all of this memory; with small pages it spends a
// seventh of its time on address translation.
const (
	frameStep     = 2 << 20
	frameCapacity = 16 << 20
)

// ErrClosed is returned by methods of a closed sequence or cache.
var ErrClosed = errors.New("kv: closed")

// Shape describes the keys and values of one token.
type Shape struct {
	HeadDim  int   // of the layers that HeadDims does not list
	HeadDims []int // [layer] elements of a head; nil: HeadDim in all layers
	KVHeads  []int // [layer]; 0 for a layer without KV
	Format   Format
	// Latent, if not 0, is the elements of a value, which are the first of its key: no values are stored.
	Latent int
}

// Dim returns the elements of a head of a layer.
func (s Shape) Dim(layer int) int {
	if s.HeadDims != nil {
		return s.HeadDims[layer]
	}
	return s.HeadDim
}

// HeadBytes returns the size of a KV head block of a layer.
func (s Shape) HeadBytes(layer int) int {
	if s.Latent > 0 {
		return s.Format.LatentBytes(s.Dim(layer))
	}
	return s.Format.BlockBytes(s.Dim(layer))
}

// blockBytes returns the size of a block of a layer: the KV head blocks of all heads.
func (s Shape) blockBytes(layer int) int { return s.KVHeads[layer] * s.HeadBytes(layer) }

// HeadBlock returns one KV head block of a page. [Format.Block32] and [Format.Block8]
// view it as numbers. The address of the page must be a multiple of 64.
func (s Shape) HeadBlock(page []byte, layer, head, block int) []byte {
	n := s.HeadBytes(layer)
	at := block*s.blockBytes(layer) + head*n
	return page[at : at+n : at+n]
}

// TokenBytes returns the bytes of one token in all layers.
func (s Shape) TokenBytes() int64 {
	var n int64
	for l := range s.KVHeads {
		n += int64(s.blockBytes(l))
	}
	return n / BlockTokens
}

// Options configure a cache.
type Options struct {
	// PageTokens is the number of tokens of a page, a multiple of BlockTokens; 0
	// means BlockTokens.
	PageTokens int
	// Hot is the memory limit for pages if older ones can be spilled to flash; 0
	// means that only the budget limits them.
	Hot int64
	// Context is the number of tokens of a sequence for whose spills a save leaves room on flash.
	Context int
	// Spill writes pages to flash when memory runs out; nil keeps all pages in
	// memory. The cache closes it.
	Spill Spiller
	// Scheduler, if set, admits the reads and writes of pages.
	Scheduler *prefetch.Scheduler
	// ReserveWriter, if set, is called before the goroutine that writes to Spill starts.
	ReserveWriter func(threads int)
	// MayBeCold states that pages may be on flash although Spill is nil.
	MayBeCold bool
}

// Cache allocates the pages of sequences. Its unit is the slab: the pages of one
// position in all layers, because a token needs all of them. See the package
// documentation for concurrency.
type Cache struct {
	shape        Shape
	budget       *tiering.Budget
	pageTokens   int   // tokens of a page
	layerOffsets []int // [layer] offset of the layer's page in a slab
	slabBytes    int   // size of a slab

	mu        sync.Mutex
	spill     Spiller
	mayBeCold bool
	hotLimit  int64 // maximum bytes of slabs in use; 0 = no limit
	context   int   // see Options.Context
	frames    map[*slabFrame]struct{}
	lastFrame *slabFrame // the frame that grows
	free      []*slab
	liveSlabs int // slabs that sequences hold
	lent      []*slab
	// stayedLent is the number of slabs that were not taken back since the last Lend, and
	// lendFailed says that there was no memory for more.
	stayedLent int
	lendFailed bool
	seqs       map[*Seq]struct{}
	clock      uint64 // counts calls of Grow
	changes    uint64 // counts changes of the pages on flash
	behind     behind
	saver      saver
	failed     error // last spill error
	closed     bool

	users    int       // goroutines that use slabs without the lock; Close waits for them
	allEnded sync.Cond // there are no users
}

// slab holds the pages of one position in all layers.
type slab struct {
	frame *slabFrame
	index int // in the frame
	data  []byte
	refs  int // number of sequences and pins that use the slab
}

// slabFrame is a frame that is cut into slabs, one after the other.
type slabFrame struct {
	frame    *tiering.Frame
	capacity int // slabs that fit at full size
	slabs    int // slabs cut so far
	keep     int // during trim: slabs up to the last one in use
}

// NewCache returns an empty cache. The cache charges its pages to budget as hot KV.
func NewCache(shape Shape, budget *tiering.Budget, o Options) (*Cache, error) {
	if o.PageTokens == 0 {
		o.PageTokens = BlockTokens
	}
	if o.PageTokens < 0 || o.PageTokens%BlockTokens != 0 || o.PageTokens > maxPageTokens {
		return nil, fmt.Errorf("kv: invalid page size of %d tokens: use a multiple of %d up to %d", o.PageTokens, BlockTokens, maxPageTokens)
	}
	c := &Cache{shape: shape, budget: budget, pageTokens: o.PageTokens, spill: o.Spill, mayBeCold: o.MayBeCold || o.Spill != nil, hotLimit: o.Hot, context: o.Context, frames: map[*slabFrame]struct{}{}, seqs: map[*Seq]struct{}{}}
	c.allEnded.L = &c.mu
	c.behind.init(c, o)
	for l, heads := range shape.KVHeads {
		if dim := shape.Dim(l); heads < 0 || heads > 0 && dim < 1 || heads > math.MaxInt32/(8*o.PageTokens)/max(1, dim) {
			return nil, fmt.Errorf("kv: layer %d: %d KV heads of %d elements are out of range", l, heads, dim)
		}
		c.layerOffsets = append(c.layerOffsets, c.slabBytes)
		c.slabBytes += c.PageBytes(l)
	}
	if c.slabBytes == 0 {
		c.slabBytes = emptySlabBytes
	}
	return c, nil
}

// emptySlabBytes is the size of a slab of a model without attention. With none, a frame would have millions of slabs.
const emptySlabBytes = 512

// maxPageTokens limits the size of a page.
const maxPageTokens = 1 << 14

// scheduler returns what admits the cache's reads and writes; nil admits all.
func (c *Cache) scheduler() *prefetch.Scheduler { return c.behind.writer.Scheduler }

// Shape returns the shape that the cache was created with.
func (c *Cache) Shape() Shape { return c.shape }

// PageTokens returns the number of tokens of a page.
func (c *Cache) PageTokens() int { return c.pageTokens }

// PageBlocks returns the number of blocks of a page.
func (c *Cache) PageBlocks() int { return c.pageTokens / BlockTokens }

// PageBytes returns the size of a page of a layer.
func (c *Cache) PageBytes(layer int) int { return c.PageBlocks() * c.shape.blockBytes(layer) }

// MayBeCold reports whether pages may be on flash.
func (c *Cache) MayBeCold() bool { return c.mayBeCold }

// page returns the page of a layer in a slab.
func (c *Cache) page(r *slab, layer int) []byte {
	at, n := c.layerOffsets[layer], c.PageBytes(layer)
	return r.data[at : at+n : at+n]
}

// takeSlab returns an unused slab and allocates one if necessary. The caller holds
// c.mu.
func (c *Cache) takeSlab() (*slab, error) {
	if c.overLimit(1) {
		c.takeBack()
	}
	r, err := c.unusedSlab()
	for errors.Is(err, tiering.ErrBudget) && c.takeBack() {
		r, err = c.unusedSlab()
	}
	if err != nil {
		return nil, err
	}
	c.liveSlabs++
	r.refs = 1
	return r, nil
}

// unusedSlab takes a slab from the list of unused ones, which it extends if necessary. The caller
// holds c.mu.
func (c *Cache) unusedSlab() (*slab, error) {
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
	return r, nil
}

// growFrames allocates memory for at least one more slab. The caller holds c.mu.
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
	if c.hotLimit > 0 { // do not exceed the limit for slabs in use
		most = max(least, min(most, (s.slabs+c.slabsLeft()-len(c.lent))*c.slabBytes))
	}
	size := min((least+frameStep-1)/frameStep*frameStep, most)
	err := s.frame.Resize(size)
	if err != nil && size > least { // near the limit a single slab may still fit
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
	return fmt.Errorf("kv: cannot allocate KV for %d more tokens: %w", c.pageTokens, err)
}

// cutSlabs cuts the memory that a frame has grown by into slabs. The first are taken first: Compact, with which memory
// is released under pressure, would otherwise begin by copying pages to slabs that nothing has touched.
func (c *Cache) cutSlabs(s *slabFrame) {
	all, before := s.frame.Bytes(), len(c.free)
	for at := s.slabs * c.slabBytes; at+c.slabBytes <= len(all) && s.slabs < s.capacity; at += c.slabBytes {
		c.free = append(c.free, &slab{frame: s, index: s.slabs, data: all[at : at+c.slabBytes : at+c.slabBytes]})
		s.slabs++
	}
	slices.Reverse(c.free[before:])
}

// releaseSlab drops one reference to a slab. The caller holds c.mu.
func (c *Cache) releaseSlab(r *slab) {
	if r.refs--; r.refs == 0 {
		c.free = append(c.free, r)
		c.liveSlabs--
		c.lendFailed = false
	}
}

// Trim returns unused memory to the operating system.
func (c *Cache) Trim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trim()
}

// trim is Trim; the caller holds c.mu. A frame shrinks to the last of its slabs that
// is in use.
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
		if s.keep == s.slabs && len(s.frame.Bytes()) <= s.slabs*c.slabBytes { // it grew by whole steps
			continue
		}
		s.slabs = s.keep
		if s.slabs > 0 {
			_ = s.frame.Resize(s.slabs * c.slabBytes) // shrinking never fails
			continue
		}
		delete(c.frames, s)
		s.frame.Free()
		if c.lastFrame == s {
			c.lastFrame = nil
		}
	}
}

// beginUse states that the caller is about to use slabs, which it holds references to, without the
// lock. The caller holds c.mu.
func (c *Cache) beginUse() { c.users++ }

// endUse ends what beginUse began. The caller holds c.mu.
func (c *Cache) endUse() {
	if c.users--; c.users == 0 {
		c.allEnded.Broadcast()
	}
}

// leave is endUse for a caller that does not hold c.mu.
func (c *Cache) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endUse()
}

// Close releases all memory. The sequences of the cache must not be used afterwards.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	c.closeWriter()
	c.closeSaver()
	for c.users > 0 {
		c.allEnded.Wait()
	}
	for s := range c.frames {
		s.frame.Free()
	}
	c.frames, c.lastFrame, c.free, c.lent = nil, nil, nil, nil
	if c.spill == nil {
		return nil
	}
	return c.spill.Close()
}
