package crc

// Combiner makes the sum of a whole from sums of its parts, which are all of one size and
// may have been summed anywhere, in any order.
type Combiner struct {
	size    int
	shifted [4][256]uint32 // what a byte of a sum becomes, by its place, when a part follows
}

// NewCombiner returns a Joint for parts of so many bytes.
func NewCombiner(size int) *Combiner {
	j := &Combiner{size: size}
	zeros := make([]byte, size)
	nothing := Update(0, zeros)
	for place := range j.shifted {
		of := &j.shifted[place]
		for bit := range 8 {
			of[1<<bit] = Update(1<<(8*place+bit), zeros) ^ nothing
		}
		for b := range of {
			low := b & -b // what a byte becomes is the sum of what its bits become
			of[b] = of[low] ^ of[b^low]
		}
	}
	return j
}

// Size returns the bytes of a part.
func (j *Combiner) Size() int { return j.size }

// Combine returns the sum of the parts that have these, one behind the other.
func (j *Combiner) Combine(parts []uint32) (sum uint32) {
	m := &j.shifted
	for _, part := range parts {
		sum = part ^ m[0][byte(sum)] ^ m[1][byte(sum>>8)] ^ m[2][byte(sum>>16)] ^ m[3][sum>>24]
	}
	return sum
}
