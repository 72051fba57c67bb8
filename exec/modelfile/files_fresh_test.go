package modelfile_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestFilesOfDirectoryChange changes the files of a directory one after another while the model is open: weights and
// configuration are read at different times, but belong to one version.
func TestFilesOfDirectoryChange(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	require.NoError(t, os.CopyFS(dir, os.DirFS(testutil.Shared(t, "fixtures", "llama32"))))
	opened := func() *modelfile.Files {
		f, err := modelfile.Open(vfs.OS(), dir)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		return f
	}
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json"} {
		path := filepath.Join(dir, name)
		if name == "tokenizer.json" { // which this model does not have
			require.NoError(t, os.WriteFile(path, []byte("{}"), 0o600))
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		f := opened()
		require.NoError(t, os.WriteFile(path, data, 0o600))
		_, err = f.CheckOpened()
		require.ErrorIs(t, err, store.ErrChanged, name)

		fresh, err := opened().CheckOpened()
		require.NoError(t, err)
		require.NotNil(t, fresh, "the file was written a moment ago")
		info, err := os.Stat(path)
		require.NoError(t, err)
		done, err := fresh.Check(info.ModTime())
		require.NoError(t, err)
		require.False(t, done)
		later := info.ModTime().Add(time.Minute)
		done, err = fresh.Check(later)
		require.NoError(t, err)
		require.True(t, done)
		require.NoError(t, os.WriteFile(path, append(data, ' '), 0o600))
		_, err = fresh.Check(later)
		require.ErrorIs(t, err, store.ErrChanged)
		require.ErrorContains(t, err, path)
		require.NoError(t, fresh.Close())
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
}
