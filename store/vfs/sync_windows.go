package vfs

import (
	"errors"
	"io/fs"
	"os"
)

// syncFile syncs a file. Windows flushes files only through handles that may write.
func syncFile(f *os.File) error {
	err := f.Sync()
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	writable, err := os.OpenFile(f.Name(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(writable.Sync(), writable.Close())
}
