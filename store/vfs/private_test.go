//go:build linux || darwin

package vfs

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCheckPrivate checks owners and modes of directories, also through wrappers.
func TestCheckPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	require.NoError(t, CheckPrivate(OS(), dir), "a directory that does not exist")
	require.NoError(t, os.Mkdir(dir, 0o700))
	for _, test := range []struct {
		mode    os.FileMode
		private bool
	}{
		{0o700, true}, {0o755, true}, {0o777, false}, {0o702, false}, {0o777 | os.ModeSticky, false},
	} {
		require.NoError(t, os.Chmod(dir, test.mode))
		for _, fsys := range []FS{OS(), OSOwn(), Throttled(OS(), 1<<30, time.Microsecond), NewFaulty(OS(), func(Op) error { return nil })} {
			err := CheckPrivate(fsys, dir)
			if test.private {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, ErrNotPrivate)
			require.ErrorContains(t, err, dir)
			require.ErrorContains(t, err, "chmod go-w")
		}
	}
	require.NoError(t, CheckPrivate(NewMem(), "cache"))
}

// TestPrivateTo checks the rules for owners and groups.
func TestPrivateTo(t *testing.T) {
	require.NoError(t, privateTo(1000, 1000, 50, 0o755))
	require.NoError(t, privateTo(1000, 1000, 1000, 0o775), "the user's private group")
	if runtime.GOOS != "android" {
		require.ErrorIs(t, privateTo(1000, 1000, 50, 0o775), ErrNotPrivate)
	}
	require.ErrorIs(t, privateTo(1000, 1001, 1001, 0o700), ErrNotPrivate)
	require.ErrorIs(t, privateTo(0, 1001, 1001, 0o700), ErrNotPrivate, "the superuser uses no directory of another user")
	require.ErrorIs(t, privateTo(1000, 0, 0, 0o755), ErrNotPrivate)
}

// TestOSOwnOpensNoLink reads through symbolic links.
func TestOSOwnOpensNoLink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(file, make([]byte, 8192), 0o600))
	require.NoError(t, os.Symlink(file, link))
	for _, fsys := range []FS{OSOwn(), Throttled(OSOwn(), 1<<30, time.Microsecond)} {
		for _, open := range []func(string) (File, error){fsys.Open, func(name string) (File, error) { return OpenDirect(fsys, name) }} {
			require.NoError(t, closed(open(file)))
			require.ErrorIs(t, closed(open(link)), ErrNotRegular)
		}
	}
	require.NoError(t, closed(OS().Open(link)))
}

// TestCreateFollowsNoLink puts a symbolic link where a file is created, locked or replaced.
// The file that the link names keeps its content.
func TestCreateFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	require.NoError(t, os.WriteFile(precious, []byte("content"), 0o600))
	for name, write := range map[string]func(name string) error{
		"create": func(name string) error { return closed(OS().Create(name)) },
		"lock": func(name string) error {
			lock, err := Lock(OS(), name)
			if err == nil {
				err = lock.Close()
			}
			return err
		},
		"root": func(name string) error { return closed(OSRoot(dir).Create(filepath.Base(name))) },
	} {
		t.Run(name, func(t *testing.T) {
			link := filepath.Join(dir, name)
			require.NoError(t, os.Symlink(precious, link))
			require.ErrorContains(t, write(link), link)
		})
	}
	require.NoError(t, WriteFile(OS(), filepath.Join(dir, "create"), []byte("new")))
	content, err := os.ReadFile(precious)
	require.NoError(t, err)
	require.Equal(t, "content", string(content))
}

// closed closes a file that should not have opened.
func closed(f File, err error) error {
	if err != nil {
		return err
	}
	return f.Close()
}
