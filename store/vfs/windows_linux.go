package vfs

import "golang.org/x/sys/unix"

// populate reads the pages of a mapping in one request. Kernels before 5.14 read them in the
// background instead. Errors do not matter: the access to the pages finds them again.
func populate(region []byte) {
	if unix.Madvise(region, unix.MADV_POPULATE_READ) != nil {
		_ = unix.Madvise(region, unix.MADV_WILLNEED)
	}
}
