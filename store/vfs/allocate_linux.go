package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve reserves size bytes of disk space. File systems without support for that report a
// full disk on a later write.
func reserve(f *os.File, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return nil
		}
		return err
	}
}
