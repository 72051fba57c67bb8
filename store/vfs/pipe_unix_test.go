//go:build unix

package vfs

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestPipeDoesNotBlock checks that Open rejects a named pipe; opening it would block until
// a writer appears.
func TestPipeDoesNotBlock(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	for _, fsys := range []FS{Sub(OS(), dir), OSRoot(dir)} {
		_, err := fsys.Open("pipe")
		require.ErrorIs(t, err, ErrNotRegular)
	}
}
