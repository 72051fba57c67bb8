//go:build unix

package tiering

import "golang.org/x/sys/unix"

// mapPages returns size bytes of private, zeroed memory. The kernel provides a
// page when it is first touched, and is told not to set memory aside before: a
// frame with room to grow may have more addresses than there is memory.
func mapPages(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
}

// unmapPages returns what mapPages gave. It fails only for a slice that is no
// mapping, which Frame's bookkeeping excludes: hence the panic.
func unmapPages(pages []byte) {
	if err := unix.Munmap(pages); err != nil {
		panic("tiering: munmap: " + err.Error())
	}
}

// discard gives the memory of pages back; the addresses stay ours. Linux does it
// at once, other systems when they need it.
func discard(pages []byte) { _ = unix.Madvise(pages, unix.MADV_DONTNEED) }

// recommit makes discarded pages usable again, which they are.
func recommit([]byte) error { return nil }
