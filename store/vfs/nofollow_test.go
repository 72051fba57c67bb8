//go:build linux || darwin

package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

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
