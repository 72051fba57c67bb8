package vfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

// TestReopenKeepsContent continues a file in every file system that writes.
func TestReopenKeepsContent(t *testing.T) {
	disk := t.TempDir()
	none := func(vfs.Op) error { return nil }
	for name, tree := range map[string]struct {
		fsys vfs.FS
		file string
	}{
		"os":        {vfs.OS(), filepath.Join(disk, "os")},
		"own":       {vfs.OSOwn(), filepath.Join(disk, "own")},
		"mem":       {vfs.NewMem(), "f"},
		"faulty":    {vfs.NewFaulty(vfs.NewMem(), none), "f"},
		"throttled": {vfs.Throttled(vfs.NewMem(), 0, 0), "f"},
		"sub":       {vfs.Sub(vfs.NewMem(), "."), "f"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := vfs.Reopen(tree.fsys, tree.file)
			require.ErrorIs(t, err, os.ErrNotExist)
			require.NoError(t, vfs.WriteFile(tree.fsys, tree.file, []byte("abcd")))
			f, err := vfs.Reopen(tree.fsys, tree.file)
			require.NoError(t, err)
			_, err = f.WriteAt([]byte("EF"), 3)
			require.NoError(t, err)
			require.NoError(t, f.Sync())
			require.NoError(t, f.Close())
			data, err := vfs.ReadFile(tree.fsys, tree.file, 100)
			require.NoError(t, err)
			require.Equal(t, "abcEF", string(data))
		})
	}
}

// TestReopenRefuses checks that nothing but a regular file of the tree opens.
func TestReopenRefuses(t *testing.T) {
	disk := t.TempDir()
	_, err := vfs.Reopen(vfs.OS(), disk)
	require.ErrorIs(t, err, vfs.ErrNotRegular)
	require.NoError(t, os.WriteFile(filepath.Join(disk, "target"), []byte("x"), 0o600))
	require.NoError(t, os.Symlink("target", filepath.Join(disk, "link")))
	_, err = vfs.Reopen(vfs.OS(), filepath.Join(disk, "link"))
	require.ErrorIs(t, err, vfs.ErrNotRegular)
	_, err = vfs.Reopen(vfs.Sub(vfs.OS(), disk), "../x")
	require.ErrorIs(t, err, vfs.ErrEscapes)
	_, err = vfs.Reopen(vfs.FromIOFS(os.DirFS(disk)), "target")
	require.ErrorIs(t, err, vfs.ErrReadOnly)
}
