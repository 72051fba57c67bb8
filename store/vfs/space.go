package vfs

// FreeSpace returns how many bytes a program may still write below dir, which
// exists. ok is false where the file system does not know.
func FreeSpace(fsys FS, dir string) (bytes int64, ok bool) {
	if s, is := fsys.(freeSpaceReporter); is {
		return s.freeSpace(dir)
	}
	return 0, false
}

// freeSpaceReporter is implemented by file systems that know how full they are.
type freeSpaceReporter interface {
	freeSpace(dir string) (bytes int64, ok bool)
}

func (osFS) freeSpace(dir string) (int64, bool) { return diskFree(dir) }
