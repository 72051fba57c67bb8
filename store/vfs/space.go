package vfs

import (
	"errors"
	"syscall"
)

// IsDiskFull reports whether a write failed because the disk has no space left.
func IsDiskFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }

// FreeSpace returns how many bytes can still be written below dir, which must exist. ok is
// false if the file system does not know.
func FreeSpace(fsys FS, dir string) (bytes int64, ok bool) {
	if s, is := fsys.(freeSpaceReporter); is {
		return s.freeSpace(dir)
	}
	return 0, false
}

// freeSpaceReporter is implemented by file systems that report free space.
type freeSpaceReporter interface {
	freeSpace(dir string) (bytes int64, ok bool)
}

func (osFS) freeSpace(dir string) (int64, bool) { return diskFree(dir) }
