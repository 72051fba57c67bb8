package vfs

import (
	"io"
	"os"
)

// lock creates the file and locks all of it. The operating system releases the lock when the
// process dies. A holder removes the file before it unlocks it. A lock may therefore succeed on a
// file that was just removed; lock then tries again.
func (osFS) lock(name string) (io.Closer, error) {
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
		if err != nil {
			return nil, wrap("lock", name, noOffset, err)
		}
		if err := lockFile(f); err != nil {
			f.Close()
			return nil, wrap("lock", name, noOffset, err)
		}
		if nameRefersTo(f, name) {
			return unlocker(func() error { return unlock(f, name) }), nil
		}
		f.Close()
	}
}

// nameRefersTo reports whether name still refers to the open file f.
func nameRefersTo(f *os.File, name string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(name)
	return err == nil && os.SameFile(opened, named)
}

// unlock removes the file, if the system can remove open files, and releases the lock.
func unlock(f *os.File, name string) error {
	// If Remove fails, an empty unlocked file remains, which does no harm.
	_ = os.Remove(name)
	return wrap("unlock", name, noOffset, f.Close())
}
