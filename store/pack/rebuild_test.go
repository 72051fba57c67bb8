package pack

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestRebuild damages a block of a pack. Only the bytes that were imported replace it.
func TestRebuild(t *testing.T) {
	fsys, path := large().write(t), "m.pack"
	f, err := Open(fsys, path)
	require.NoError(t, err)
	x := &f.index.extents[0]
	whole := make([]byte, x.size)
	_, err = f.Section(0).ReadAt(whole, 0)
	require.NoError(t, err)
	other, err := Open(fsys, path)
	require.NoError(t, err)
	require.True(t, f.SameWeights(other))
	require.NoError(t, other.Close())

	data, err := vfs.ReadFile(fsys, path, 1<<30)
	require.NoError(t, err)
	data[x.off+7] ^= 1
	require.NoError(t, f.Close())
	require.NoError(t, vfs.WriteFile(fsys, path, data))
	f, err = Open(fsys, path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	got := make([]byte, x.size)
	read := func() error {
		_, err := f.Section(0).ReadAt(got, 0)
		return err
	}
	require.ErrorIs(t, read(), store.ErrFormat)
	broken := errors.New("broken")
	for _, test := range []struct {
		rebuild Rebuild
		want    []error
	}{
		{func(int, int64, []byte) error { return broken }, []error{broken, ErrNotRebuilt, store.ErrFormat}},
		{func(_ int, _ int64, block []byte) error { clear(block); return nil }, []error{ErrNotRebuilt, store.ErrFormat}},
	} {
		f.RebuildWith(test.rebuild)
		err := read()
		for _, want := range test.want {
			require.ErrorIs(t, err, want)
		}
		require.ErrorContains(t, err, path)
	}
	f.RebuildWith(func(section int, off int64, block []byte) error {
		require.Zero(t, section)
		copy(block, whole[off:])
		return nil
	})
	require.NoError(t, read())
	require.Equal(t, whole, got)

	f.index.extents[0].checksums[0]++
	changed, err := Open(fsys, path)
	require.NoError(t, err)
	require.False(t, f.SameWeights(changed))
	require.NoError(t, changed.Close())
}
