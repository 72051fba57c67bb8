package store

import "github.com/cespare/xxhash/v2"

// Sum64 returns the XXH64 checksum of the concatenated parts. It checksums the headers and
// indexes of this project's file formats. Each format uses its own seed, chosen so that the
// checksum of no bytes and of zeros is not zero. Sum64 does not allocate.
func Sum64(seed uint64, parts ...[]byte) uint64 {
	var d xxhash.Digest // stays on the stack
	d.ResetWithSeed(seed)
	for _, p := range parts {
		_, _ = d.Write(p) // never fails
	}
	return d.Sum64()
}

// Hash64 returns what computes [Sum64] of bytes that are written to it.
func Hash64(seed uint64) *xxhash.Digest { return xxhash.NewWithSeed(seed) }
