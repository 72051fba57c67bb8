//go:build noasm || !(amd64 || arm64)

package quant

// Prefetch begins to read bytes into the cache that are multiplied soon, where the processor can.
func Prefetch([]byte) {}
