// Package crc computes the checksum of whatever is read from flash again and again.
//
// It is CRC-32C, for which processors have an instruction: cores that would else
// compute sum every byte that comes back, so what that costs is time that a model
// lacks. It finds every burst of up to 32 bits.
package crc

import (
	"hash/crc32"

	"github.com/llmrun/llmrun/tiering"
)

// castagnoli is the polynomial that processors know.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// prefetchBytes is a page of memory: what a processor foresees of reads ends with it.
const prefetchBytes = 4096

// Update returns the sum of what has a sum already and of data behind it. The sum of
// nothing is 0, and zeros have another one.
func Update(sum uint32, data []byte) uint32 {
	if n := len(data) / foldBytes * foldBytes; hasFold && n > 0 {
		sum = ^fold(^sum, &data[0], n)
		data = data[n:]
	}
	return update(sum, data)
}

// update is Update without folding. What is summed next is on its way from memory
// meanwhile: a device wrote it, so that it is in no cache of this core.
func update(sum uint32, data []byte) uint32 {
	for len(data) > prefetchBytes {
		tiering.Prefetch(tiering.Address(data[prefetchBytes:]), min(prefetchBytes, len(data)-prefetchBytes))
		sum = crc32.Update(sum, castagnoli, data[:prefetchBytes])
		data = data[prefetchBytes:]
	}
	return crc32.Update(sum, castagnoli, data)
}
