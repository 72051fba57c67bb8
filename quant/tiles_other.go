//go:build noasm || !(linux && amd64)

package quant

// tilesAllowed is false where the processor has no tile registers, or where this
// package has no way to request them.
func tilesAllowed() bool { return false }
