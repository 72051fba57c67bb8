package fetch

import (
	"slices"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/crc"
)

// PageChecksum computes the checksum of a page from the checksums of its KV head
// blocks. If one tile attends to the whole page, as in decoding, the thread that
// attends to a block first computes the block's checksum, so that the block is loaded
// from memory once.
type PageChecksum struct {
	combiner *crc.Combiner
	blocks   []uint32
}

// NewPageChecksum returns a PageChecksum for the pages of a cache; it is empty if all
// pages stay in memory.
func NewPageChecksum(c *kv.Cache) (s PageChecksum) {
	if c.MayBeCold() {
		s.combiner = crc.NewCombiner(c.Shape().Format.BlockBytes(c.Shape().HeadDim))
	}
	return s
}

// Buffer returns a buffer for n block checksums. It grows with the number of pages
// that are ready at once.
func (s *PageChecksum) Buffer(n int) []uint32 {
	s.blocks = slices.Grow(s.blocks[:0], n)
	return s.blocks[:n]
}

// Combine returns the checksum of a page from those of its blocks.
func (s *PageChecksum) Combine(blocks []uint32) uint32 { return s.combiner.Combine(blocks) }
