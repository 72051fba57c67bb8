//go:build (amd64 || arm64) && !noasm

package tiering

// Prefetch asks for n bytes of memory to be brought into the second-level
// cache. The address, see [Address], need not be mapped. n must be above 0.
func Prefetch(address uintptr, n int) { prefetch(address, (n+63)&^63) }

// prefetch is Prefetch for a multiple of 64.
//
//go:noescape
func prefetch(address uintptr, n int)
