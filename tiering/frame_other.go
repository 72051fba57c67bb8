//go:build !unix && !windows

package tiering

import (
	"os"
	"unsafe"
)

// mapPages falls back to Go's heap where the system offers nothing else. One
// page more is asked for, so that the start can be moved to a page border.
func mapPages(size int) ([]byte, error) {
	page := os.Getpagesize()
	raw := make([]byte, size+page)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(raw)))) & (page - 1)
	return raw[skip : skip+size : skip+size], nil
}

// unmapPages leaves the memory to the garbage collector.
func unmapPages([]byte) {}

// discard cannot give a part back here; the ledger counts it as free all the same.
func discard([]byte) {}

// recommit has nothing to do.
func recommit([]byte) error { return nil }
