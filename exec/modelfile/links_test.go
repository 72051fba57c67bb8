package modelfile

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/store/vfs"
)

// linkedModel makes a model directory whose files are links to those of the bundled model.
// place returns the target of the link for a file of the model.
func linkedModel(t *testing.T, dir string, place func(file string) (target string)) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	bundled := hubmodel.Dir(testutil.Root(t))
	entries, err := os.ReadDir(bundled)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for _, e := range entries {
		target := place(filepath.Join(bundled, e.Name()))
		require.NoError(t, os.Symlink(target, filepath.Join(dir, e.Name())))
	}
}

// readAll opens a model and reads everything that its configuration files hold.
func readAll(dir string) error {
	f, err := Open(vfs.OS(), dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.ChatTemplate(); err != nil {
		return err
	}
	_, err = f.Tokenizer()
	return err
}

// TestLinksOutOfTheModelAreRefused replaces each file of a model by a link to a file
// elsewhere. The error names the file.
func TestLinksOutOfTheModelAreRefused(t *testing.T) {
	base := t.TempDir()
	for _, linked := range []string{"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"} {
		dir := filepath.Join(base, linked)
		inside := filepath.Join(dir, "inside")
		linkedModel(t, dir, func(file string) string {
			if filepath.Base(file) == linked {
				return file
			}
			require.NoError(t, os.MkdirAll(inside, 0o700))
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(inside, filepath.Base(file)), data, 0o600))
			return filepath.Join("inside", filepath.Base(file)) // a link within the directory is fine
		})
		err := readAll(dir)
		require.ErrorIs(t, err, vfs.ErrEscapes, linked)
		require.ErrorContains(t, err, filepath.Join(dir, linked))
	}
}

// TestHubCacheOpens opens a model in the layout of the Hugging Face cache, also through a link
// to the snapshot.
func TestHubCacheOpens(t *testing.T) {
	repo := filepath.Join(t.TempDir(), "models--a--b")
	blobs := filepath.Join(repo, "blobs")
	require.NoError(t, os.MkdirAll(blobs, 0o700))
	snapshot := filepath.Join(repo, "snapshots", "0123abcd")
	linkedModel(t, snapshot, func(file string) string {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(blobs, filepath.Base(file)), data, 0o600))
		return filepath.Join("..", "..", "blobs", filepath.Base(file))
	})
	require.NoError(t, readAll(snapshot))
	link := filepath.Join(t.TempDir(), "model")
	require.NoError(t, os.Symlink(snapshot, link))
	require.NoError(t, readAll(link))
}

// TestGGUFLinksOutOfADirectory opens a GGUF model by the directory that holds it.
func TestGGUFLinksOutOfADirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	file, dir := testutil.Shared(t, "gguf", "tiny-llama-q4_0.gguf"), t.TempDir()
	link := filepath.Join(dir, "m.gguf")
	require.NoError(t, os.Symlink(file, link))
	_, err := Open(vfs.OS(), dir)
	require.ErrorIs(t, err, vfs.ErrEscapes)
	require.ErrorContains(t, err, link)
	f, err := Open(vfs.OS(), link)
	require.NoError(t, err, "the user names the link itself")
	require.NoError(t, f.Close())
}
