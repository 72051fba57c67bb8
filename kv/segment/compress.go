package segment

import "github.com/llmrun/llmrun/store/record"

// maxExpansion limits how much longer the content of a session may be than its compressed form.
const maxExpansion = record.MaxExpansion

// compress appends the length of content and content, compressed if that makes it shorter.
func compress(b, content []byte) []byte { return record.Compress(b, content) }

// decompress returns the content that compress has appended to the first head bytes of b, after
// these bytes.
func decompress(path string, b []byte, head int) ([]byte, error) {
	return record.Expand(path, b, head, maxManifest)
}
