//go:build unix

package tiering

import "golang.org/x/sys/unix"

// mapPages maps size bytes of private, zeroed memory. The kernel provides a page on
// first access. MAP_NORESERVE prevents an earlier reservation: a frame with room to
// grow may have more address space than there is memory.
func mapPages(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
}

// reservePages is mapPages: pages that are not used take no memory.
func reservePages(size int) ([]byte, error) { return mapPages(size) }

// unmapPages unmaps the result of mapPages. It fails only for a slice that is not a
// mapping, which is a bug in Frame.
func unmapPages(pages []byte) {
	if err := unix.Munmap(pages); err != nil {
		panic("tiering: munmap: " + err.Error())
	}
}

// discard releases the memory of pages and retains their addresses. Linux does so at
// once, other systems on demand.
func discard(pages []byte) { _ = unix.Madvise(pages, unix.MADV_DONTNEED) }

// recommit does nothing: discarded pages are usable.
func recommit([]byte) error { return nil }
