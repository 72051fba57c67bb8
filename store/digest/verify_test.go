package digest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestVerify compares files with remembered hashes: of the same content, of another one with
// the same size and time of modification, and of one that was written anew.
func TestVerify(t *testing.T) {
	forget()
	path, stamp := settledFile(t, "weights")
	memo := NewMemo(vfs.OS(), filepath.Join(t.TempDir(), "cache"))
	d, known, err := memo.Verify(t.Context(), vfs.OS(), path, nil)
	require.NoError(t, err)
	require.False(t, known)
	memo.add(memoName, stamp, entry{d.Sum, 1})
	require.NoError(t, os.Remove(vfs.Join(memo.dir, freshName)))
	forget()

	_, known, err = memo.Verify(t.Context(), vfs.OS(), path, nil)
	require.NoError(t, err)
	require.True(t, known)
	forget()

	require.NoError(t, os.WriteFile(path, []byte("wEights"), 0o600))
	require.NoError(t, os.Chtimes(path, time.Time{}, time.Unix(0, stamp.Modified)))
	again, known, err := memo.Verify(t.Context(), vfs.OS(), path, nil)
	require.ErrorIs(t, err, store.ErrFormat)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, d.Sum.String())
	require.ErrorContains(t, err, again.Sum.String())
	require.True(t, known)
	forget()
	_, known, err = memo.Verify(t.Context(), vfs.OS(), path, nil)
	require.ErrorIs(t, err, store.ErrFormat, "it is still damaged")
	require.True(t, known)
	found, err := memo.Of(t.Context(), vfs.OS(), path, nil)
	require.NoError(t, err)
	require.Equal(t, again.Sum, found.Sum, "a model has the identity of its content")

	require.NoError(t, os.Chtimes(path, time.Time{}, time.Unix(0, stamp.Modified+1e9)))
	_, known, err = memo.Verify(t.Context(), vfs.OS(), path, nil)
	require.NoError(t, err)
	require.False(t, known, "a file that was written anew is not damaged")
	_, _, err = memo.Verify(t.Context(), vfs.OS(), path+"x", nil)
	require.Error(t, err)
}

// TestVerifyKnowsFreshFiles uses a file right after it was written. A later verification knows its
// hash, and calls no file damaged that was written twice within a tick of the clock.
func TestVerifyKnowsFreshFiles(t *testing.T) {
	forget()
	path, stamp := settledFile(t, "weights")
	memo := NewMemo(vfs.OS(), filepath.Join(t.TempDir(), "cache"))
	d, err := memo.Of(t.Context(), vfs.OS(), path, nil)
	require.NoError(t, err)
	for range 2 {
		forget() // another process
		again, known, err := memo.Verify(t.Context(), vfs.OS(), path, nil)
		require.NoError(t, err)
		require.Equal(t, d.Sum, again.Sum)
		require.True(t, known)
	}
	_, known := memo.find(stamp)
	require.False(t, known, "a hash that may be old does not replace reading the file")

	forget()
	require.NoError(t, os.WriteFile(path, []byte("wEights"), 0o600))
	require.NoError(t, os.Chtimes(path, time.Time{}, time.Unix(0, stamp.Modified)))
	_, known, err = memo.Verify(t.Context(), vfs.OS(), path, nil)
	require.NoError(t, err)
	require.False(t, known)
}
