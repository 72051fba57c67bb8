//go:build !unix && !windows

package tiering

import (
	"os"
	"unsafe"
)

// mapPages allocates on Go's heap on systems without another interface. It allocates
// one page more, to align the start.
func mapPages(size int) ([]byte, error) {
	page := os.Getpagesize()
	raw := make([]byte, size+page)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(raw)))) & (page - 1)
	return raw[skip : skip+size : skip+size], nil
}

// reservePages is mapPages.
func reservePages(size int) ([]byte, error) { return mapPages(size) }

// unmapPages leaves the memory to the garbage collector.
func unmapPages([]byte) {}

// discard cannot release a part of a heap allocation. The ledger counts it as
// released.
func discard([]byte) {}

// recommit does nothing.
func recommit([]byte) error { return nil }
