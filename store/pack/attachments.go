package pack

import (
	"bytes"
	"io/fs"
	"path"
	"time"

	"github.com/llmrun/llmrun/store/vfs"
)

// Attachments returns the files that the pack carries as a file system of one
// directory. A file is read and checked as a whole when it is opened.
func (f *File) Attachments() vfs.FS { return vfs.FromIOFS(attachmentFS{f}) }

type attachmentFS struct{ f *File }

// Open implements fs.FS.
func (a attachmentFS) Open(name string) (fs.File, error) {
	if name == "." {
		return directory{}, nil
	}
	data, ok, err := a.f.Attachment(name)
	if err == nil && !ok {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: a.f.path + "/" + name, Err: err}
	}
	return attached{bytes.NewReader(data), name}, nil
}

// attached is an open attachment.
type attached struct {
	*bytes.Reader
	name string
}

func (a attached) Stat() (fs.FileInfo, error) { return entry{path.Base(a.name), a.Size(), 0o400}, nil }
func (attached) Close() error                 { return nil }

// directory is the one that the attachments lie in.
type directory struct{}

func (directory) Stat() (fs.FileInfo, error) { return entry{".", 0, fs.ModeDir | 0o500}, nil }
func (directory) Read([]byte) (int, error)   { return 0, fs.ErrInvalid }
func (directory) Close() error               { return nil }

// entry describes an attachment or the directory.
type entry struct {
	name string
	size int64
	mode fs.FileMode
}

func (e entry) Name() string       { return e.name }
func (e entry) Size() int64        { return e.size }
func (e entry) Mode() fs.FileMode  { return e.mode }
func (e entry) ModTime() time.Time { return time.Time{} }
func (e entry) IsDir() bool        { return e.mode.IsDir() }
func (e entry) Sys() any           { return nil }
