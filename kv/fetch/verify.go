package fetch

import (
	"slices"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/crc"
)

// Checks computes the checksum of a page from those of its KV head blocks. Where one tile
// attends to all of a page, as in decoding, the thread that attends to a block computes its
// checksum first, so that its bytes come from memory once.
type Checks struct {
	combine *crc.Combiner // of KV head blocks
	sums    []uint32
}

// NewChecks returns the checks for pages of a cache, nothing if all of them stay in memory.
func NewChecks(c *kv.Cache) (s Checks) {
	if c.MayBeCold() {
		s.combine = crc.NewCombiner(c.Shape().Format.BlockBytes(c.Shape().HeadDim))
	}
	return s
}

// Room returns room for n block checksums. It grows with the pages that are ready at once.
func (s *Checks) Room(n int) []uint32 {
	s.sums = slices.Grow(s.sums[:0], n)
	return s.sums[:n]
}

// Page returns the checksum of a page from those of its blocks.
func (s *Checks) Page(blocks []uint32) uint32 { return s.combine.Combine(blocks) }
