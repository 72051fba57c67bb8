//go:build linux || darwin

package vfs

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// noFollow makes opening a symbolic link fail.
const noFollow = unix.O_NOFOLLOW

const (
	groupWrites = 0o020
	othersWrite = 0o002
)

func (osFS) checkPrivate(dir string) error {
	var st unix.Stat_t
	switch err := unix.Stat(dir, &st); err {
	case nil:
	case unix.ENOTDIR: // a file is where a directory above dir should be
		return fs.ErrNotExist
	default:
		return err
	}
	return privateTo(os.Geteuid(), int(st.Uid), int(st.Gid), uint32(st.Mode))
}

// privateTo returns an error if a directory is not private to a user.
func privateTo(user, owner, group int, mode uint32) error {
	switch {
	case owner != user:
		return fmt.Errorf("%w: it belongs to user %d and this program runs as user %d; choose a directory of your own", ErrNotPrivate, owner, user)
	case mode&othersWrite != 0:
		return fmt.Errorf("%w: everybody may write to it; run chmod go-w on it, or choose another one", ErrNotPrivate)
	case mode&groupWrites != 0 && group != owner && runtime.GOOS != "android":
		return fmt.Errorf("%w: group %d may write to it; run chmod go-w on it, or choose another one", ErrNotPrivate, group)
	}
	return nil
}
