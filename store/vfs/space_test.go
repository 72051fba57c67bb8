package vfs

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAllocate(t *testing.T) {
	for name, fsys := range writable(t) {
		t.Run(name, func(t *testing.T) {
			f, err := fsys.Create("f")
			require.NoError(t, err)
			require.NoError(t, Allocate(f, 10_000))
			size, err := f.Size()
			require.NoError(t, err)
			require.EqualValues(t, 10_000, size)
			data := make([]byte, 10_000)
			_, err = f.ReadAt(data, 0)
			require.NoError(t, err)
			require.Equal(t, make([]byte, 10_000), data)
			require.NoError(t, f.Close())
			require.Error(t, Allocate(f, 20_000))
		})
	}
}

func TestFreeSpace(t *testing.T) {
	free, ok := FreeSpace(OS(), t.TempDir())
	require.True(t, ok)
	require.Positive(t, free)
	_, ok = FreeSpace(OS(), filepath.Join(t.TempDir(), "missing"))
	require.False(t, ok)
	_, ok = FreeSpace(NewMem(), ".")
	require.False(t, ok)
}
