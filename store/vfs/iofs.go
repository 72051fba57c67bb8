package vfs

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
)

// FromIOFS returns fsys as a read-only FS. Its files must implement io.ReaderAt, as those
// of embed.FS, os.DirFS and testing/fstest do, because the engine reads tensors at their
// offsets. fsys decides which files a symbolic link may reach.
func FromIOFS(fsys fs.FS) FS { return ioFS{fsys} }

// ioFS implements FromIOFS.
type ioFS struct{ fsys fs.FS }

// cleanName converts a name to the form that io/fs accepts.
func cleanName(name string) string {
	return path.Clean(strings.TrimPrefix(name, "/"))
}

func (f ioFS) Open(name string) (File, error) {
	opened, err := f.fsys.Open(cleanName(name))
	if err != nil {
		return nil, wrap("open", name, noOffset, err)
	}
	info, err := opened.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNotRegular
	}
	reader, ok := opened.(io.ReaderAt)
	if err == nil && !ok {
		err = errors.New("the file system cannot read at an offset")
	}
	if err != nil {
		opened.Close()
		return nil, wrap("open", name, noOffset, err)
	}
	return &ioFile{file: opened, reader: reader, name: name}, nil
}

func (f ioFS) Stat(name string) (Info, error) {
	info, err := fs.Stat(f.fsys, cleanName(name))
	if err != nil {
		return Info{}, wrap("stat", name, noOffset, err)
	}
	return infoOf(info), nil
}

func (f ioFS) ReadDir(name string) ([]Info, error) {
	entries, err := fs.ReadDir(f.fsys, cleanName(name))
	if err != nil {
		return nil, wrap("readdir", name, noOffset, err)
	}
	return infosOf(entries), nil
}

func (f ioFS) Create(name string) (File, error) {
	return nil, wrap("create", name, noOffset, ErrReadOnly)
}
func (f ioFS) MkdirAll(name string) error { return wrap("mkdir", name, noOffset, ErrReadOnly) }
func (f ioFS) Rename(_, newName string) error {
	return wrap("rename", newName, noOffset, ErrReadOnly)
}
func (f ioFS) Remove(name string) error  { return wrap("remove", name, noOffset, ErrReadOnly) }
func (f ioFS) SyncDir(name string) error { return wrap("syncdir", name, noOffset, ErrReadOnly) }

// ioFile is an open file of an ioFS.
type ioFile struct {
	file   fs.File
	reader io.ReaderAt // file
	name   string
}

func (f *ioFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.reader.ReadAt(p, off)
	if n == len(p) {
		err = nil // io.ReaderAt may return io.EOF together with the last bytes
	}
	return n, wrap("read", f.name, off+int64(n), err)
}

func (f *ioFile) Size() (int64, error) {
	info, err := f.file.Stat()
	if err != nil {
		return 0, wrap("stat", f.name, noOffset, err)
	}
	return info.Size(), nil
}

func (f *ioFile) WriteAt(_ []byte, off int64) (int, error) {
	return 0, wrap("write", f.name, off, ErrReadOnly)
}
func (f *ioFile) Sync() error               { return wrap("sync", f.name, noOffset, ErrReadOnly) }
func (f *ioFile) Truncate(size int64) error { return wrap("truncate", f.name, size, ErrReadOnly) }
func (f *ioFile) Close() error              { return wrap("close", f.name, noOffset, f.file.Close()) }
func (f *ioFile) Name() string              { return f.name }
