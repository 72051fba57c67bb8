package testutil

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// tarGz returns an archive with one file.
func tarGz(t *testing.T, name, content string) []byte {
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	files := tar.NewWriter(zipped)
	require.NoError(t, files.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(content))}))
	_, err := files.Write([]byte(content))
	require.NoError(t, err)
	require.NoError(t, files.Close())
	require.NoError(t, zipped.Close())
	return packed.Bytes()
}

func TestUnpackSet(t *testing.T) {
	packed, cache := filepath.Join(t.TempDir(), "things"), t.TempDir()
	write := func(name string, content []byte) {
		path := filepath.Join(packed, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, content, 0o600))
	}
	requireFile := func(dir, name, want string) {
		got, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}

	dir, err := unpackSet(packed, cache)
	require.NoError(t, err)
	require.Equal(t, packed, dir, "a set that does not exist")
	write("plain/a.txt", []byte("a"))
	dir, err = unpackSet(packed, cache)
	require.NoError(t, err)
	require.Equal(t, packed, dir, "a set without archives")

	write("b.tar.gz", tarGz(t, "deep/b.txt", "b"))
	first, err := unpackSet(packed, cache)
	require.NoError(t, err)
	requireFile(first, "plain/a.txt", "a")
	requireFile(first, "b/deep/b.txt", "b")
	again, err := unpackSet(packed, cache)
	require.NoError(t, err)
	require.Equal(t, first, again)

	write("b.tar.gz", tarGz(t, "deep/b.txt", "changed"))
	second, err := unpackSet(packed, cache)
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	requireFile(second, "b/deep/b.txt", "changed")

	for name, damaged := range map[string][]byte{
		"not an archive": []byte("no"), "truncated": tarGz(t, "c", "c")[:20], "path outside": tarGz(t, "../../c", "c"),
	} {
		write("b.tar.gz", damaged)
		_, err := unpackSet(packed, cache)
		require.ErrorContains(t, err, "b.tar.gz", name)
	}
	left, err := filepath.Glob(filepath.Join(cache, "partial-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestTestdataTakesPrecedence(t *testing.T) {
	root := t.TempDir()
	checkout := filepath.Join(root, "checkout")
	for _, name := range []string{
		"checkout/go.mod", "checkout/testdata/things/a/x.json", "shared/things/a/x.json", "shared/things/b/x.json",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	t.Chdir(checkout)
	own, larger := filepath.Join(checkout, "testdata", "things"), filepath.Join(root, "shared", "things")
	require.Equal(t, filepath.Join(own, "a"), Shared(t, "things", "a"))
	require.Equal(t, filepath.Join(larger, "b"), Shared(t, "things", "b"))
	require.Equal(t, []string{filepath.Join(own, "a", "x.json"), filepath.Join(larger, "b", "x.json")}, Glob(t, "things", "*/x.json"))
}
