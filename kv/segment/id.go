package segment

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/llmrun/llmrun/store"
)

// ID names what a chunk holds: a hash of a model with its settings and of all
// tokens up to the chunk's end.
type ID [16]byte

// String returns the ID's hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// The two halves of an ID have seeds of their own. No seed is zero, so that
// zeros have no hash of zero.
const (
	idSeedLow    = 0x6c6c6d72756e4b56
	idSeedHigh   = 0x8f1bbcdc5be0cd19
	checksumSeed = 0x6c6c6d72756e5047
)

// NewKey hashes what keys and values depend on besides the tokens: the layout of
// the cache, and whatever identifies the model and how it computes. It is the ID
// of an empty text. It depends on the version too, so that files of another one have
// other names and are in nobody's way until they are evicted.
func NewKey(layout Layout, identity ...string) ID {
	b := layout.encode(binary.LittleEndian.AppendUint32(nil, Version))
	for _, text := range identity {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(text)))
		b = append(b, text...)
	}
	return hashID(b)
}

// Next returns the ID of the chunk of these tokens behind another chunk, or
// behind the key where there is none.
func Next(parent ID, tokens []int32) ID {
	b := make([]byte, 0, len(parent)+4*len(tokens))
	return hashID(appendTokens(append(b, parent[:]...), tokens))
}

func hashID(b []byte) (id ID) {
	binary.LittleEndian.PutUint64(id[:], store.Sum64(idSeedLow, b))
	binary.LittleEndian.PutUint64(id[8:], store.Sum64(idSeedHigh, b))
	return id
}

func appendTokens(b []byte, tokens []int32) []byte {
	for _, id := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	return b
}

// pageChecksum is what is kept of a page's checksum: it depends on where the page belongs too.
func pageChecksum(id ID, layer, page int, sum uint32) uint64 {
	var b [28]byte
	copy(b[:], id[:])
	binary.LittleEndian.PutUint32(b[16:], uint32(layer))
	binary.LittleEndian.PutUint32(b[20:], uint32(page))
	binary.LittleEndian.PutUint32(b[24:], sum)
	return store.Sum64(checksumSeed, b[:])
}
