package fetch

import (
	"slices"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/crc"
)

// Page is a page in memory.
type Page struct {
	Data    []byte
	segment kv.Segment
	index   int // in the segment
}

// Verify compares the checksum of the page with the checksum of the written page.
func (p *Page) Verify(layer int, sum uint32) error {
	return p.segment.Verify(layer, p.index, sum)
}

// Authentic reports whether reading the pages has verified them already.
func Authentic(pages []Page) bool {
	for i := range pages {
		if !pages[i].segment.Authentic() {
			return false
		}
	}
	return true
}

// PageChecksum computes the checksum of a page from the checksums of its KV head
// blocks. If one tile attends to the whole page, as in decoding, the thread that
// attends to a block first computes the block's checksum, so that the block is loaded
// from memory once.
type PageChecksum struct {
	combiners []*crc.Combiner // [layer]; layers with heads of the same size share one
	blocks    []uint32
}

// NewPageChecksum returns a PageChecksum for the pages of a cache; it is empty if all
// pages stay in memory.
func NewPageChecksum(c *kv.Cache) (s PageChecksum) {
	if !c.MayBeCold() {
		return s
	}
	shape, bySize := c.Shape(), map[int]*crc.Combiner{}
	for l, heads := range shape.KVHeads {
		size := shape.HeadBytes(l)
		if bySize[size] == nil && heads > 0 {
			bySize[size] = crc.NewCombiner(size)
		}
		s.combiners = append(s.combiners, bySize[size])
	}
	return s
}

// Buffer returns a buffer for n block checksums. It grows with the number of pages
// that are ready at once.
func (s *PageChecksum) Buffer(n int) []uint32 {
	s.blocks = slices.Grow(s.blocks[:0], n)
	return s.blocks[:n]
}

// Combine returns the checksum of a page of a layer from those of its blocks.
func (s *PageChecksum) Combine(layer int, blocks []uint32) uint32 {
	return s.combiners[layer].Combine(blocks)
}
