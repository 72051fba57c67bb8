package vfs

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tree creates files below a new directory and returns it. Content that begins with "-> "
// creates a symbolic link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		if target, ok := cutLink(content); ok {
			if err := os.Symlink(target, path); err != nil {
				t.Skipf("symbolic links cannot be made here: %v", err)
			}
			continue
		}
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return dir
}

func cutLink(content string) (target string, ok bool) {
	if len(content) > 3 && content[:3] == "-> " {
		return content[3:], true
	}
	return "", false
}

func TestConfinedTreeCannotBeLeft(t *testing.T) {
	outside := filepath.Join(tree(t, map[string]string{"secret": "secret"}), "secret")
	dir := tree(t, map[string]string{
		"secret":           "secret",
		"model/ok":         "fine",
		"model/sub/ok":     "fine",
		"model/inner":      "-> sub/ok",
		"model/up":         "-> ../secret",
		"model/absolute":   "-> " + outside,
		"model/dirlink":    "-> ..",
		"model/sub/around": "-> ../ok",
	})
	fsys := Confine(OS(), filepath.Join(dir, "model"))
	for _, name := range []string{"ok", "sub/ok", "inner", "sub/around", "sub/../ok"} {
		data, err := ReadFile(fsys, name, 100)
		require.NoError(t, err, name)
		require.Equal(t, "fine", string(data))
	}
	for _, name := range []string{"../secret", "sub/../../secret", outside, "up", "absolute", "dirlink/secret"} {
		_, err := fsys.Open(name)
		var ioErr *IOError
		require.ErrorAs(t, err, &ioErr, name)
		require.ErrorIs(t, err, ErrEscapes, name)
		_, err = fsys.Stat(name)
		require.Error(t, err, name)
		_, err = fsys.Create(name)
		require.Error(t, err, name)
	}
	require.ErrorIs(t, fsys.Rename("../secret", "taken"), ErrEscapes)
	require.ErrorIs(t, fsys.Rename("ok", "../taken"), ErrEscapes)
	untouched, err := os.ReadFile(outside)
	require.NoError(t, err)
	require.Equal(t, "secret", string(untouched))
	_, err = Confine(fsys, "sub").Open("../ok")
	require.ErrorIs(t, err, ErrEscapes)
	_, err = Sub(NewMem(), "dir").Open("../x")
	require.ErrorIs(t, err, ErrEscapes)
}

// TestHubSnapshotOpens checks that the files of a hub snapshot, which are links into the
// blobs directory beside it, open, and that links to other places do not.
func TestHubSnapshotOpens(t *testing.T) {
	outside := filepath.Join(tree(t, map[string]string{"secret": "secret"}), "secret")
	dir := tree(t, map[string]string{
		"models--a--b/blobs/123":               "weights",
		"models--a--b/snapshots/rev/model":     "-> ../../blobs/123",
		"models--a--b/snapshots/rev/out":       "-> " + outside,
		"models--a--b/snapshots/rev/neighbour": "-> ../../../other",
		"models--a--b/snapshots/rev/sub/model": "-> ../../../blobs/123",
		"other":                                "secret",
		"link":                                 "-> models--a--b/snapshots/rev",
	})
	fsys := Confine(OS(), filepath.Join(dir, "models--a--b", "snapshots", "rev"))
	data, err := ReadFile(fsys, "model", 100)
	require.NoError(t, err)
	require.Equal(t, "weights", string(data))
	infos, err := fsys.ReadDir(".")
	require.NoError(t, err)
	require.Len(t, infos, 4)
	for _, below := range []string{"models--a--b/snapshots/rev/sub", "link", "link/sub"} {
		data, err := ReadFile(Confine(OS(), filepath.Join(dir, below)), "model", 100)
		require.NoError(t, err, below)
		require.Equal(t, "weights", string(data), below)
	}
	for _, name := range []string{"out", "neighbour", "../../blobs/123", "../rev/model"} {
		_, err := fsys.Open(name)
		require.ErrorIs(t, err, ErrEscapes, name)
	}
}

func TestConfineKeepsWrappers(t *testing.T) {
	mem := NewMem()
	require.NoError(t, mem.MkdirAll("dir"))
	require.NoError(t, WriteFile(mem, "dir/f", []byte("x")))
	var seen []OpKind
	faulty := NewFaulty(Throttled(mem, 0, time.Nanosecond), func(op Op) error {
		seen = append(seen, op.Kind)
		return nil
	})
	_, err := ReadFile(Confine(faulty, "dir"), "f", 10)
	require.NoError(t, err)
	require.Equal(t, []OpKind{OpOpen, OpSize, OpRead, OpClose}, seen)
}

func TestCreatedFilesArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("permissions are not bits there")
	}
	dir := t.TempDir()
	for name, fsys := range map[string]FS{"os": Sub(OS(), dir), "root": OSRoot(dir)} {
		require.NoError(t, fsys.MkdirAll(name))
		require.NoError(t, WriteFile(fsys, name+"/f", nil))
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
		info, err = os.Stat(filepath.Join(dir, name, "f"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
}
