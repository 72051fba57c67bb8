package crc

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
