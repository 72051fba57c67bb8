package store

import "github.com/cespare/xxhash/v2"

// Sum64 is the checksum of what lies in files of this project's formats: XXH64. Each
// has a seed of its own, with which the sum of no bytes, or of zeros, is not zero. It
// allocates nothing.
func Sum64(seed uint64, parts ...[]byte) uint64 {
	var d xxhash.Digest // on the stack
	d.ResetWithSeed(seed)
	for _, p := range parts {
		_, _ = d.Write(p) // never fails
	}
	return d.Sum64()
}
