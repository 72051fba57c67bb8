package vfs

// Allocate makes f size bytes long and, where the file system can promise it,
// makes sure that the disk has room for all of them, so that a full disk shows
// here and not in the middle of what is written next.
func Allocate(f File, size int64) error {
	if a, ok := f.(allocator); ok {
		return a.allocate(size)
	}
	return f.Truncate(size)
}

// allocator is implemented by files that can reserve room.
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
