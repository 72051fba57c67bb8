package vfs

import (
	"embed"
	"errors"
	"io"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// writable returns an empty instance of every writable file system.
func writable(t *testing.T) map[string]FS {
	sub := NewMem()
	require.NoError(t, sub.MkdirAll("deep/er"))
	none := func(Op) error { return nil }
	return map[string]FS{
		"os":        Sub(OS(), t.TempDir()),
		"osroot":    OSRoot(t.TempDir()),
		"confined":  Confine(OSRoot(t.TempDir()), "."),
		"mem":       NewMem(),
		"sub":       Sub(sub, "deep/er"),
		"faulty":    NewFaulty(NewMem(), none),
		"throttled": Throttled(NewMem(), 0, 0),
	}
}

// TestContract checks every file system against the promises of FS and File.
func TestContract(t *testing.T) {
	for name, fsys := range writable(t) {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, fsys.MkdirAll("a/b"))
			require.NoError(t, fsys.MkdirAll("a/b"), "an existing directory is not an error")
			f, err := fsys.Create("a/b/f")
			require.NoError(t, err)
			n, err := f.WriteAt([]byte("hello"), 3)
			require.NoError(t, err)
			require.Equal(t, 5, n)
			require.NoError(t, f.Sync())
			size, err := f.Size()
			require.NoError(t, err)
			require.EqualValues(t, 8, size)
			require.NoError(t, f.Truncate(6))
			require.NoError(t, f.Close())
			require.NoError(t, fsys.SyncDir("a/b"))

			data, err := ReadFile(fsys, "a/b/f", 6)
			require.NoError(t, err)
			require.Equal(t, "\x00\x00\x00hel", string(data))
			checkReads(t, fsys, 0)
			checkNames(t, fsys)
		})
	}
}

// checkReads expects a file a/b/f of 6 bytes, which begin at an offset of the file on the disk.
func checkReads(t *testing.T, fsys FS, start int64) {
	f, err := fsys.Open("a/b/f")
	require.NoError(t, err)
	p := make([]byte, 4)
	n, err := f.ReadAt(p, 2)
	require.NoError(t, err, "reading the last bytes returns no error")
	require.Equal(t, 4, n)
	n, err = f.ReadAt(p, 4)
	require.Equal(t, 2, n)
	requireIOError(t, err, io.EOF, "read", 6)
	_, err = f.ReadAt(p, 100)
	requireIOError(t, err, io.EOF, "read", 100)
	_, err = f.ReadAt(p, -1)
	require.Error(t, err)
	_, err = f.WriteAt(p, 0)
	require.Error(t, err, "Open opens for reading only")
	require.NoError(t, f.Close())
	_, err = f.ReadAt(p, 0)
	requireIOError(t, err, fs.ErrClosed, "read", start)
}

func checkNames(t *testing.T, fsys FS) {
	require.NoError(t, WriteFile(fsys, "a/g", []byte("new")))
	require.NoError(t, fsys.Rename("a/g", "a/b/f"), "Rename replaces an existing file")
	_, err := fsys.Stat("a/g")
	requireIOError(t, err, fs.ErrNotExist, "stat", -1)
	info, err := fsys.Stat("a/b/f")
	require.NoError(t, err)
	require.Equal(t, Info{Name: "f", Size: 3}, info)
	require.NoError(t, WriteFile(fsys, "a/c", nil))
	infos, err := fsys.ReadDir("a")
	require.NoError(t, err)
	require.Len(t, infos, 2)
	require.Equal(t, "b", infos[0].Name)
	require.True(t, infos[0].IsDir)
	require.Equal(t, Info{Name: "c"}, infos[1])

	_, err = fsys.Open("a/b")
	requireIOError(t, err, ErrNotRegular, "open", -1)
	_, err = fsys.Open("a/none")
	requireIOError(t, err, fs.ErrNotExist, "open", -1)
	_, err = fsys.Create("none/f")
	requireIOError(t, err, fs.ErrNotExist, "create", -1)
	require.Error(t, fsys.Remove("a/b"), "Remove rejects a directory with files")
	requireIOError(t, fsys.Rename("a/none", "a/x"), fs.ErrNotExist, "rename", -1)
	require.NoError(t, fsys.Remove("a/b/f"))
	require.NoError(t, fsys.Remove("a/b"))
	requireIOError(t, fsys.Remove("a/b"), fs.ErrNotExist, "remove", -1)
	_, err = fsys.ReadDir("a/b")
	requireIOError(t, err, fs.ErrNotExist, "readdir", -1)
}

// requireIOError asserts the cause, operation and offset of an error.
func requireIOError(t *testing.T, err, cause error, op string, off int64) {
	t.Helper()
	var ioErr *IOError
	require.ErrorAs(t, err, &ioErr)
	require.ErrorIs(t, err, cause)
	require.Equal(t, op, ioErr.Op)
	require.Equal(t, off, ioErr.Off)
	require.NotEmpty(t, ioErr.Path)
	require.Contains(t, err.Error(), ioErr.Path)
}

func TestReadFileLimit(t *testing.T) {
	fsys := NewMem()
	require.NoError(t, WriteFile(fsys, "f", make([]byte, 11)))
	_, err := ReadFile(fsys, "f", 10)
	require.ErrorIs(t, err, ErrTooLarge)
	data, err := ReadFile(fsys, "f", 11)
	require.NoError(t, err)
	require.Len(t, data, 11)
	require.NoError(t, WriteFile(fsys, "empty", nil))
	data, err = ReadFile(fsys, "empty", 0)
	require.NoError(t, err)
	require.Empty(t, data)
}

//go:embed vfs.go
var embedded embed.FS

func TestFromIOFS(t *testing.T) {
	source, err := os.ReadFile("vfs.go")
	require.NoError(t, err)
	mapped := fstest.MapFS{"vfs.go": {Data: source}, "dir/x": {Data: []byte("x")}}
	for name, fsys := range map[string]FS{
		"embed": FromIOFS(embedded), "map": FromIOFS(mapped), "dir": FromIOFS(os.DirFS(".")),
	} {
		t.Run(name, func(t *testing.T) {
			data, err := ReadFile(fsys, "./vfs.go", 1<<20)
			require.NoError(t, err)
			require.Equal(t, source, data)
			info, err := fsys.Stat("/vfs.go")
			require.NoError(t, err)
			require.EqualValues(t, len(source), info.Size)
			_, err = fsys.Open(".")
			requireIOError(t, err, ErrNotRegular, "open", -1)
			_, err = fsys.Open("../vfs.go")
			require.Error(t, err)
			_, err = fsys.Create("new")
			requireIOError(t, err, ErrReadOnly, "create", -1)
			require.ErrorIs(t, fsys.Remove("vfs.go"), ErrReadOnly)
			f, err := Confine(fsys, ".").Open("vfs.go")
			require.NoError(t, err)
			_, err = f.ReadAt(make([]byte, 2), int64(len(source))-1)
			requireIOError(t, err, io.EOF, "read", int64(len(source)))
			require.NoError(t, f.Close())
		})
	}
	infos, err := FromIOFS(mapped).ReadDir("dir")
	require.NoError(t, err)
	require.Equal(t, []Info{{Name: "x", Size: 1}}, infos)
}

// sequential hides all methods of a file except those of fs.File.
type sequential struct{ fs.FS }

func (s sequential) Open(name string) (fs.File, error) {
	f, err := s.FS.Open(name)
	return struct{ fs.File }{f}, err
}

func TestFromIOFSNeedsReaderAt(t *testing.T) {
	_, err := FromIOFS(sequential{embedded}).Open("vfs.go")
	require.ErrorContains(t, err, "cannot read at an offset")
}

func TestIOErrorText(t *testing.T) {
	cause := errors.New("broken")
	require.Equal(t, "read m.gguf at offset 12: broken", (&IOError{"read", "m.gguf", 12, cause}).Error())
	require.Equal(t, "open m.gguf: broken", wrap("open", "m.gguf", noOffset, &fs.PathError{Op: "open", Path: "m.gguf", Err: cause}).Error())
	inner := wrap("read", "inner", 3, cause)
	require.Equal(t, inner, wrap("open", "outer", 0, inner), "an IOError stays unchanged")
	require.NoError(t, wrap("open", "x", 0, nil))
}

func TestJoinAndSplit(t *testing.T) {
	for _, c := range []struct{ dir, name, joined string }{
		{"", "a", "a"}, {".", "a", "a"}, {"d", "a", "d/a"}, {"d/", "a", "d/a"}, {"/", "a", "/a"}, {"/d", "a/b", "/d/a/b"},
	} {
		require.Equal(t, c.joined, Join(c.dir, c.name))
	}
	for _, c := range []struct{ name, dir, base string }{
		{"a", ".", "a"}, {"d/a", "d", "a"}, {"/a", "/", "a"}, {"/d/e/a", "/d/e", "a"}, {"d/", "d", ""},
	} {
		dir, base := Split(c.name)
		require.Equal(t, c.dir, dir, c.name)
		require.Equal(t, c.base, base, c.name)
	}
}

// TestBeginsWith compares the first bytes of files that are longer and shorter than the text.
func TestBeginsWith(t *testing.T) {
	fsys := NewMem()
	for content, want := range map[string]bool{"GGUF": true, "GGUF and more": true, "GGU": false, "": false, "gguf": false} {
		require.NoError(t, WriteFile(fsys, "a", []byte(content)))
		begins, err := BeginsWith(fsys, "a", "GGUF")
		require.NoError(t, err)
		require.Equal(t, want, begins, "%q", content)
	}
	_, err := BeginsWith(fsys, "b", "GGUF")
	require.ErrorIs(t, err, fs.ErrNotExist)
}
