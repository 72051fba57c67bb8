package fetch

import (
	"slices"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/crc"
)

// PageChecksum computes the checksum of a page from those of its KV head blocks. Where one tile
// attends to all of a page, as in decoding, the thread that attends to a block computes its
// checksum first, so that its bytes come from memory once.
type PageChecksum struct {
	combiner *crc.Combiner // of KV head blocks
	blocks   []uint32
}

// NewPageChecksum returns the checks for pages of a cache, nothing if all of them stay in memory.
func NewPageChecksum(c *kv.Cache) (s PageChecksum) {
	if c.MayBeCold() {
		s.combiner = crc.NewCombiner(c.Shape().Format.BlockBytes(c.Shape().HeadDim))
	}
	return s
}

// Buffer returns room for n block checksums. It grows with the pages that are ready at once.
func (s *PageChecksum) Buffer(n int) []uint32 {
	s.blocks = slices.Grow(s.blocks[:0], n)
	return s.blocks[:n]
}

// Combine returns the checksum of a page from those of its blocks.
func (s *PageChecksum) Combine(blocks []uint32) uint32 { return s.combiner.Combine(blocks) }
