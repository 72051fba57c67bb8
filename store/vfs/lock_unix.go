//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// flock is the system call, which a test replaces.
var flock = unix.Flock

// lockFile locks f or returns ErrLocked. The lock belongs to the open file: closing it or
// the end of the process releases it.
func lockFile(f *os.File) error {
	for {
		err := flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOLCK):
			return errNoLocks
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrLocked
		}
		return err
	}
}
