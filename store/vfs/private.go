package vfs

import (
	"errors"
	"io/fs"
	"os"
)

// ErrNotPrivate reports a directory whose files other users of the machine may replace.
var ErrNotPrivate = errors.New("other users may change the directory")

// CheckPrivate returns an error that wraps ErrNotPrivate if dir exists and belongs to another
// user, or if others may write to it. That holds for the superuser too, and for directories
// with the sticky bit, in which others cannot remove files but can create them first. A group
// may write if it has the number of the owner, as the private groups of users do. Android
// manages the groups of directories, so only other users count there. Access control lists
// and the directories above dir are not considered. File systems without owners, and Windows,
// pass.
func CheckPrivate(fsys FS, dir string) error {
	c, ok := fsys.(privacyChecker)
	if !ok {
		return nil
	}
	err := c.checkPrivate(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return wrap("use", dir, noOffset, err)
}

// ErrLink reports a symbolic link where the program makes a directory: it would write where the
// link leads.
var ErrLink = errors.New("it is a symbolic link, which llmrun did not make: remove it, or choose another cache directory")

// CheckNoLink returns an error that wraps ErrLink if dir is a symbolic link. File systems without
// links pass.
func CheckNoLink(fsys FS, dir string) error {
	if c, ok := fsys.(privacyChecker); ok && c.isLink(dir) {
		return wrap("use", dir, noOffset, ErrLink)
	}
	return nil
}

// privacyChecker is implemented by file systems with owners and by wrappers.
type privacyChecker interface {
	checkPrivate(dir string) error
	isLink(dir string) bool
}

func (t *throttledFS) checkPrivate(dir string) error { return CheckPrivate(t.FS, dir) }

func (t *throttledFS) isLink(dir string) bool { return CheckNoLink(t.FS, dir) != nil }

func (f *faultyFS) checkPrivate(dir string) error { return CheckPrivate(f.fsys, dir) }

func (f *faultyFS) isLink(dir string) bool { return CheckNoLink(f.fsys, dir) != nil }

func (osFS) isLink(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}
