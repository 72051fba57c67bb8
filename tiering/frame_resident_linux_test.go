package tiering

import (
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pagesInMemory returns how many pages of b are in memory.
func pagesInMemory(t *testing.T, b []byte) (count int) {
	t.Helper()
	pages := make([]byte, len(b)/os.Getpagesize())
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&pages[0])))
	require.Zero(t, errno)
	for _, page := range pages {
		count += int(page & 1)
	}
	return count
}

// TestShrunkFrameLeavesMemory checks that the system has the pages of a frame back when Resize returns. Free unmaps
// the others, and panics if it cannot.
func TestShrunkFrameLeavesMemory(t *testing.T) {
	const size, kept = 6 * hugePage, hugePage / 2
	f, err := AllocRoom(New(0), Scratch, size, size)
	require.NoError(t, err)
	defer f.Free()
	pages := f.Bytes()
	for i := 0; i < size; i += os.Getpagesize() {
		pages[i] = 1
	}
	require.Positive(t, pagesInMemory(t, pages[kept:]))
	require.NoError(t, f.Resize(kept))
	require.Zero(t, pagesInMemory(t, pages[kept:]))
}

// TestHugePagesStayWithinTheLease makes the kernel collect small pages into huge ones, as its background thread does after
// a while: what a frame has given back, or has not taken yet, stays without memory.
func TestHugePagesStayWithinTheLease(t *testing.T) {
	const size, kept = 6 * hugePage, 2*hugePage + hugePage/2
	collected := func(pages []byte) { collapse(insideHuge(pages)) }
	touch := func(pages []byte) {
		for i := 0; i < len(pages); i += os.Getpagesize() {
			pages[i] = 1
		}
	}
	f, err := AllocRoom(New(0), Scratch, kept, size)
	require.NoError(t, err)
	defer f.Free()
	all := f.pages
	for _, n := range []int{kept, size, kept + hugePage, kept, hugePage / 2, kept} {
		require.NoError(t, f.Resize(n))
		touch(f.Bytes())
		collected(all)
		require.Equal(t, n/os.Getpagesize(), pagesInMemory(t, all), "%d bytes in use", n)
	}
	reads, err := AllocForReads(New(0), Scratch, kept)
	require.NoError(t, err)
	defer reads.Free()
	touch(reads.Bytes())
	collected(reads.mapping)
	require.Equal(t, kept/os.Getpagesize(), pagesInMemory(t, reads.mapping))
}
