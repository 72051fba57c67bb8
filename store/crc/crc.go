// Package crc computes CRC-32C, the checksum of data that the engine reads from flash
// repeatedly: the blocks of a pack and the pages of the KV cache.
//
// The threads that compute also verify each byte they read, so checksum time adds to the
// time of each token. CRC-32C is fast because processors have instructions for it. It
// detects every error burst of up to 32 bits. [Update] computes a checksum; [Combiner]
// joins the checksums of equal-sized blocks without reading the data again.
//
// The files fold_amd64.s and fold_arm64.s contain the fast paths; update in this file is
// the portable fallback.
package crc

import (
	"hash/crc32"

	"github.com/llmrun/llmrun/tiering"
)

// castagnoli is the CRC-32C polynomial, which processors implement.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// prefetchBytes is the size of a memory page: hardware prefetchers stop at its end.
const prefetchBytes = 4096

// Update extends a checksum: sum is the checksum of the preceding bytes, and the result is
// the checksum of these bytes followed by data. The checksum of no data is 0; the checksum
// of zeros is not.
func Update(sum uint32, data []byte) uint32 {
	if n := len(data) / foldBytes * foldBytes; hasFold && n > 0 {
		sum = ^fold(^sum, &data[0], n)
		data = data[n:]
	}
	return update(sum, data)
}

// update is Update without the assembly fast path. It prefetches the next memory page while
// it checksums the current one: the data comes from a device and is in no cache of this core.
func update(sum uint32, data []byte) uint32 {
	for len(data) > prefetchBytes {
		tiering.Prefetch(tiering.Address(data[prefetchBytes:]), min(prefetchBytes, len(data)-prefetchBytes))
		sum = crc32.Update(sum, castagnoli, data[:prefetchBytes])
		data = data[prefetchBytes:]
	}
	return crc32.Update(sum, castagnoli, data)
}

// Combiner computes the checksum of concatenated blocks from the checksums of the blocks.
// All blocks have the same size. They may be checksummed by any thread and in any order.
//
// A CRC is linear: appending a block of zeros maps each byte of a checksum to a fixed word,
// and the words of the four bytes add up (XOR). A table holds these words.
type Combiner struct {
	size    int
	shifted [4][256]uint32 // [byte position, byte value] the checksum after a block of zeros
}

// NewCombiner returns a Combiner for blocks of size bytes.
func NewCombiner(size int) *Combiner {
	c := &Combiner{size: size}
	zeros := make([]byte, size)
	base := Update(0, zeros)
	for position := range c.shifted {
		table := &c.shifted[position]
		for bit := range 8 {
			table[1<<bit] = Update(1<<(8*position+bit), zeros) ^ base
		}
		for b := range table {
			lowest := b & -b // linear: the word of a byte is the XOR of the words of its bits
			table[b] = table[lowest] ^ table[b^lowest]
		}
	}
	return c
}

// Size returns the size of a block in bytes.
func (c *Combiner) Size() int { return c.size }

// Combine returns the checksum of the concatenation of the blocks that have these checksums.
func (c *Combiner) Combine(blocks []uint32) (sum uint32) {
	m := &c.shifted
	for _, block := range blocks {
		sum = block ^ m[0][byte(sum)] ^ m[1][byte(sum>>8)] ^ m[2][byte(sum>>16)] ^ m[3][sum>>24]
	}
	return sum
}
