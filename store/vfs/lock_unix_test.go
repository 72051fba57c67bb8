//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package vfs

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestLockWithoutLocks takes locks on a file system that has none: they exclude each other within the process.
func TestLockWithoutLocks(t *testing.T) {
	defer func(f func(int, int) error) { flock = f }(flock)
	for _, refused := range []error{unix.ENOTSUP, unix.ENOSYS, unix.ENOLCK} {
		flock = func(int, int) error { return refused }
		dir := t.TempDir()
		name := filepath.Join(dir, "a.lock")
		first, err := Lock(OS(), name)
		require.NoError(t, err)
		require.False(t, ProvesAbsence(first))
		_, err = Lock(OS(), dir+"/./a.lock")
		require.ErrorIs(t, err, ErrLocked)
		require.NoError(t, first.Close())
		again, err := Lock(OS(), name)
		require.NoError(t, err)
		require.NoError(t, again.Close())
		require.NoFileExists(t, name)
	}
	flock = func(int, int) error { return unix.EIO }
	_, err := Lock(OS(), filepath.Join(t.TempDir(), "a.lock"))
	require.ErrorIs(t, err, unix.EIO, "other errors are reported")
}
