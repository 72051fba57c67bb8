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
