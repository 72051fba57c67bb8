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
