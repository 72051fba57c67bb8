//go:build !noasm && (amd64 || arm64)

package quant

//go:noescape
func prefetch(p *byte, lines int)

// cacheLine is the least size of a line of the cache.
const cacheLine = 64

// Prefetch begins to read bytes into the cache that are multiplied soon, and does not wait for them.
func Prefetch(b []byte) {
	if len(b) > 0 {
		prefetch(&b[0], (len(b)+cacheLine-1)/cacheLine)
	}
}
