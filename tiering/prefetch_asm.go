//go:build (amd64 || arm64) && !noasm

package tiering

// Prefetch loads n bytes of memory into the second-level cache; n must be positive.
// The address, see [Address], need not be mapped.
func Prefetch(address uintptr, n int) { prefetch(address, (n+63)&^63) }

// prefetch is Prefetch for a multiple of 64 bytes.
//
//go:noescape
func prefetch(address uintptr, n int)
