package synth

import (
	"encoding/binary"
	"hash/fnv"
	"math/bits"
)

// source is a fast random generator: a counter with a multiplicative mix, as in wyrand. It
// is not cryptographically secure.
type source uint64

// newSource returns the generator of one tensor, so that the bytes of a tensor do not
// depend on the other tensors.
func newSource(seed uint64, name string) source {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, seed))
	h.Write([]byte(name))
	return source(h.Sum64())
}

// next returns 64 random bits.
func (s *source) next() uint64 {
	*s += 0xa0761d6478bd642f
	hi, lo := bits.Mul64(uint64(*s), uint64(*s)^0xe7037ed1a0b428db)
	return hi ^ lo
}

// uniform returns a number from -1 to 1.
func (s *source) uniform() float64 { return float64(int64(s.next())) / (1 << 63) }

// below returns an integer from 0 to n-1.
func (s *source) below(n int) int {
	hi, _ := bits.Mul64(s.next(), uint64(n))
	return int(hi)
}

// bytes fills p.
func (s *source) bytes(p []byte) {
	for len(p) >= 8 {
		binary.LittleEndian.PutUint64(p, s.next())
		p = p[8:]
	}
	if len(p) > 0 {
		var last [8]byte
		binary.LittleEndian.PutUint64(last[:], s.next())
		copy(p, last[:])
	}
}
