//go:build noasm || !(linux && amd64)

package quant

// tilesAllowed is false where there are no tile registers, or where it is not
// known how to ask for them.
func tilesAllowed() bool { return false }
