//go:build !linux

package vfs

// firstAbsentPage finds nothing: this system does not report which pages are in memory.
func firstAbsentPage([]byte, int, int) (at int, found bool) { return 0, false }

// populate does nothing: the access to the pages reads them.
func populate([]byte) {}
