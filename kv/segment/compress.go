package segment

import (
	"encoding/binary"

	"github.com/pierrec/lz4/v4"

	"github.com/llmrun/llmrun/store"
)

// maxExpansion limits how much longer the content of a session may be than its compressed form,
// so that a reader allocates memory in proportion to the file. Texts and token ids shrink to a half
// or two thirds.
const maxExpansion = 4

// compress appends the length of content and content as one LZ4 block, or as it is if that gains
// nothing or more than maxExpansion.
func compress(b, content []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(content)))
	block := make([]byte, lz4.CompressBlockBound(len(content)))
	var c lz4.Compressor // a new one, so that equal contents give equal files
	n, err := c.CompressBlock(content, block)
	if err != nil || n == 0 || n >= len(content) || n < len(content)/maxExpansion {
		return append(b, content...)
	}
	return append(b, block[:n]...)
}

// decompress returns the content that compress has appended to the first head bytes of b, after
// these bytes.
func decompress(path string, b []byte, head int) ([]byte, error) {
	refuse := refuser(path)
	if len(b) < head+4 {
		return nil, refuse(int64(len(b)), "length of the content", store.ErrTruncated, "the file ends within it")
	}
	n, block := int64(binary.LittleEndian.Uint32(b[head:])), b[head+4:]
	if n > maxManifest || n > maxExpansion*int64(len(block)+1) {
		return nil, refuse(int64(head), "length of the content", store.ErrFormat, "%d bytes do not come from %d compressed bytes", n, len(block))
	}
	all := make([]byte, int64(head)+n)
	copy(all, b[:head])
	if n == int64(len(block)) {
		copy(all[head:], block)
		return all, nil
	}
	got, err := lz4.UncompressBlock(block, all[head:])
	if err != nil || int64(got) != n {
		return nil, refuse(int64(head+4), "content", store.ErrFormat, "the LZ4 block gives %d bytes instead of %d", got, n)
	}
	return all, nil
}
