package vfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExtendKeepsTheContent appends to files of every file system that can, and finds neither missing files nor links.
func TestExtendKeepsTheContent(t *testing.T) {
	mem := NewMem()
	for name, fsys := range map[string]FS{
		"os": Sub(OS(), t.TempDir()), "mem": mem, "faulty": NewFaulty(NewMem(), func(Op) error { return nil }),
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, WriteFile(fsys, "f", []byte("begin")))
			f, err := Extend(fsys, "f")
			require.NoError(t, err)
			_, err = f.WriteAt([]byte(" end"), 5)
			require.NoError(t, err)
			require.NoError(t, f.Sync())
			require.NoError(t, f.Close())
			data, err := ReadFile(fsys, "f", 100)
			require.NoError(t, err)
			require.Equal(t, "begin end", string(data))
			_, err = Extend(fsys, "none")
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
	_, err := Extend(Throttled(mem, 0, 0), "f")
	require.ErrorIs(t, err, ErrReadOnly)
	_, err = Extend(Sub(mem, "."), "../f")
	require.ErrorIs(t, err, ErrEscapes)

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "target"), nil, 0o600))
	if os.Symlink("target", filepath.Join(dir, "link")) == nil {
		_, err = Extend(OS(), filepath.Join(dir, "link"))
		require.Error(t, err)
	}
}
