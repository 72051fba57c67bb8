package tiering

import "golang.org/x/sys/unix"

// releaseMapping gives back the pages of a mapping of a file that are as the file has them. It may fail: then they stay.
func releaseMapping(from, to uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
}
