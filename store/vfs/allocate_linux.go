package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve takes room for size bytes. File systems that cannot promise any are
// taken at their word: what does not fit shows when it is written.
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
