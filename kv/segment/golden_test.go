package segment

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

var update = flag.Bool("update", false, "write the golden files of the current version anew")

// goldenTokens are the tokens of the golden session: two segments, and a rest.
var goldenTokens = randomTokens(9, 21)

// TestGolden opens a session and its segments that an earlier program of this version wrote, and
// writes them again: equal contents give equal files. Segments are of version 2, sessions of 3.
func TestGolden(t *testing.T) {
	golden := filepath.Join("testdata", "version3")
	mem := vfs.NewMem()
	s := openStore(t, mem, 0)
	want := mustWrite(t, s, goldenTokens, 3)
	require.NoError(t, save(s.dir, "talk", want))
	names := append(pathsIn(t, mem, "kv", Suffix), pathsIn(t, mem, "sessions", sessionSuffix)...)
	require.Len(t, names, 3)
	if *update {
		require.NoError(t, os.RemoveAll(golden))
		for _, name := range names {
			data, err := vfs.ReadFile(mem, "cache/"+name, 1<<20)
			require.NoError(t, err)
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(golden, name)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(golden, name), data, 0o644))
		}
	}
	old := vfs.NewMem()
	for _, dir := range []string{"cache/kv", "cache/sessions"} {
		require.NoError(t, old.MkdirAll(dir))
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(golden, name))
		require.NoError(t, err)
		require.NoError(t, vfs.WriteFile(old, "cache/"+name, data))
		written, err := vfs.ReadFile(mem, "cache/"+name, 1<<20)
		require.NoError(t, err)
		require.Equal(t, data, written, "%s: equal contents give equal files", name)
	}
	s = openStore(t, old, 0)
	got, err := s.dir.Session("talk")
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = s.dir.VerifySession("talk")
	require.NoError(t, err)
	require.Equal(t, 20, found(t, s, goldenTokens))

	// A session of version 2, which was not compressed, with the same segments.
	data, err := os.ReadFile(filepath.Join("testdata", "version2.session"))
	require.NoError(t, err)
	require.Equal(t, plain(want), data)
	require.NoError(t, vfs.WriteFile(old, "cache/sessions/older.session", data))
	got, err = s.dir.Session("older")
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = s.dir.VerifySession("older")
	require.NoError(t, err)
}

// pathsIn lists files of a directory of the cache, relative to the cache.
func pathsIn(t *testing.T, fsys vfs.FS, dir, suffix string) (paths []string) {
	for _, name := range filesIn(t, fsys, "cache/"+dir, suffix) {
		paths = append(paths, dir+"/"+name)
	}
	return paths
}
