package vfs

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// probedPages is the number of pages of one mincore call.
const probedPages = 1024

// firstAbsentPage returns the offset of the first page of a mapping in [from, to) that is not
// in memory. from is a multiple of the page size.
func firstAbsentPage(region []byte, from, to int) (at int, found bool) {
	page := os.Getpagesize()
	var pages [probedPages]byte
	for from < to {
		n := min((to-from+page-1)/page, probedPages)
		if _, _, failed := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&region[from])), uintptr(n*page), uintptr(unsafe.Pointer(&pages[0]))); failed != 0 {
			return 0, false
		}
		for i, state := range pages[:n] {
			if state&1 == 0 {
				return from + i*page, true
			}
		}
		from += n * page
	}
	return 0, false
}

// populate reads the pages of a mapping in one request. Kernels before 5.14 read them in the
// background instead. Errors do not matter: the access to the pages finds them again.
func populate(region []byte) {
	if unix.Madvise(region, unix.MADV_POPULATE_READ) != nil {
		_ = unix.Madvise(region, unix.MADV_WILLNEED)
	}
}
