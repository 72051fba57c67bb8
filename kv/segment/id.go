package segment

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/llmrun/llmrun/store"
)

// ID identifies the contents of a segment: a hash of the model with its settings and
// of all tokens up to the segment's end.
type ID [16]byte

// String returns the ID in hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// The two halves of an ID use different seeds. No seed is zero, so that zeros do not
// hash to zero.
const (
	idSeedLow    = 0x6c6c6d72756e4b56
	idSeedHigh   = 0x8f1bbcdc5be0cd19
	checksumSeed = 0x6c6c6d72756e5047
)

// NewKey hashes everything that KV depends on besides the tokens: the layout of the
// cache and the identity strings of the model and its settings. The key is the ID of
// an empty sequence. It also depends on the format version, so that files of another
// version have other names; they remain until they are evicted.
func NewKey(layout Layout, identity ...string) ID {
	b := layout.encode(binary.LittleEndian.AppendUint32(nil, Version))
	for _, part := range identity {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	return hashID(b)
}

// Next returns the ID of a segment with these tokens. parent is the ID of the segment
// before it, or the key.
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

// pageChecksum combines the checksum of a page's bytes with the page's position. The
// segment stores the result.
func pageChecksum(id ID, layer, page int, sum uint32) uint64 {
	var b [28]byte
	copy(b[:], id[:])
	binary.LittleEndian.PutUint32(b[16:], uint32(layer))
	binary.LittleEndian.PutUint32(b[20:], uint32(page))
	binary.LittleEndian.PutUint32(b[24:], sum)
	return store.Sum64(checksumSeed, b[:])
}
