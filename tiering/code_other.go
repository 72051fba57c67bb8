//go:build !linux

package tiering

// releaseMapping does nothing: mappings are not known.
func releaseMapping(from, to uintptr) {}
