package llmrun_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestLinksInsideTheCacheAreRefused puts links in the place of the directories that llmrun makes.
func TestLinksInsideTheCacheAreRefused(t *testing.T) {
	for _, sub := range []string{"kv", "sessions"} {
		dir, elsewhere := t.TempDir(), t.TempDir()
		if err := os.Symlink(elsewhere, filepath.Join(dir, sub)); err != nil {
			t.Skip(err)
		}
		for _, o := range []llmrun.CacheOptions{{Dir: dir}, {KVDir: dir}} {
			_, err := llmrun.Open(demoModel, llmrun.Options{Cache: o})
			require.ErrorContains(t, err, filepath.Join(dir, sub))
			require.ErrorContains(t, err, "symbolic link")
		}
		_, err := llmrun.Sessions(dir)
		require.ErrorContains(t, err, "symbolic link")
		_, err = llmrun.RemoveSession(dir, "a")
		require.ErrorContains(t, err, "symbolic link")
		_, err = llmrun.CleanCachedKV(dir)
		require.ErrorContains(t, err, "symbolic link")
		left, err := os.ReadDir(elsewhere)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// TestPinFileWhereNothingCanBeMapped opens a pack of an fs.FS, as the bundled model is, and one on
// a throttled disk: the weights are copied.
func TestPinFileWhereNothingCanBeMapped(t *testing.T) {
	pack := packed(t, writeShape(t, small(t), "q8_0"), llmrun.ImportOptions{})
	pin := llmrun.MemoryOptions{Pin: "file"}
	want := ids(t, newSession(t, open(t, pack, llmrun.Options{})), document(20), 4)
	dir, name := filepath.Split(pack)
	e := open(t, name, llmrun.Options{FS: os.DirFS(dir), Memory: pin})
	require.Equal(t, want, ids(t, newSession(t, e), document(20), 4))
	e = open(t, pack, llmrun.Options{Memory: pin, Lab: llmrun.LabOptions{Disk: llmrun.DiskSpeed{BytesPerSecond: 1 << 30}}})
	require.Equal(t, want, ids(t, newSession(t, e), document(20), 4))
}
