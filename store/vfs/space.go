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

// FreeSpaceFor is FreeSpace for a directory that need not exist: it asks for the nearest one above it that does.
func FreeSpaceFor(fsys FS, dir string) (bytes int64, ok bool) {
	for {
		if _, err := fsys.Stat(dir); err == nil {
			return FreeSpace(fsys, dir)
		}
		above, _ := Split(dir)
		if above == dir {
			return 0, false
		}
		dir = above
	}
}

// freeSpaceReporter is implemented by file systems that report free space.
type freeSpaceReporter interface {
	freeSpace(dir string) (bytes int64, ok bool)
}

func (osFS) freeSpace(dir string) (int64, bool) { return diskFree(dir) }

// Allocate sets the length of f to size bytes. Where the file system supports it, Allocate
// also reserves the disk space, so that a full disk fails here and not in a later write.
func Allocate(f File, size int64) error {
	if a, ok := f.(allocator); ok {
		return a.allocate(size)
	}
	return f.Truncate(size)
}

// allocator is implemented by files that can reserve disk space.
type allocator interface {
	allocate(size int64) error
}

func (f *osFile) allocate(size int64) error {
	if err := reserve(f.f, size); err != nil {
		return wrap("allocate", f.name, size, err)
	}
	return f.Truncate(size)
}

func (f *faultyFile) allocate(size int64) error {
	if err := f.check(OpAllocate, f.Name(), size, 0); err != nil {
		return err
	}
	return Allocate(f.file, size)
}

func (f *throttledFile) allocate(size int64) error { return Allocate(f.File, size) }
