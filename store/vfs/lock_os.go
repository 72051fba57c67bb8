package vfs

import (
	"io"
	"os"
)

// lock locks the file as a whole, with the lock that the operating system drops
// when its holder dies. The holder removes the file before it lets go, so a
// lock may be won on a file that has just lost its name: then the next one is
// tried.
func (osFS) lock(name string) (io.Closer, error) {
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
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

// nameRefersTo reports whether name stands for the open file.
func nameRefersTo(f *os.File, name string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(name)
	return err == nil && os.SameFile(opened, named)
}

// unlock removes the file where an open one can be removed, and lets go.
func unlock(f *os.File, name string) error {
	// A failure leaves an empty file behind, which is a lock that nobody holds.
	_ = os.Remove(name)
	return wrap("unlock", name, noOffset, f.Close())
}
