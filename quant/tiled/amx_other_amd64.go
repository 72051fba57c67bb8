//go:build !noasm && !linux

package tiled

// tilesAllowed reports whether there are tile registers that this process may
// use: how systems other than Linux are asked is not known here.
func tilesAllowed() bool { return false }
