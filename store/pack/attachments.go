package pack

import (
	"bytes"
	"io/fs"
	"path"
	"time"

	"github.com/llmrun/llmrun/store/vfs"
)

// Attachments returns the attachments as a read-only file system with one directory.
// Opening an attachment reads and verifies all of it.
func (f *File) Attachments() vfs.FS {
	return vfs.Metered(vfs.FromIOFS(attachmentFS{f}), vfs.MeterOf(f.fsys))
}

// attachmentFS implements fs.FS over the attachments of a pack.
type attachmentFS struct{ f *File }

// Open implements fs.FS.
func (a attachmentFS) Open(name string) (fs.File, error) {
	if name == "." {
		return attachmentDir{}, nil
	}
	data, ok, err := a.f.Attachment(name)
	if err == nil && !ok {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: a.f.path + "/" + name, Err: err}
	}
	return attachmentFile{bytes.NewReader(data), name, a.f}, nil
}

// attachmentFile is an open attachment.
type attachmentFile struct {
	*bytes.Reader
	name string
	f    *File
}

func (a attachmentFile) Stat() (fs.FileInfo, error) {
	return attachmentInfo{path.Base(a.name), a.Size(), 0o400}, nil
}

func (a attachmentFile) Close() error {
	vfs.Release(a.f.fsys, a.Size())
	return nil
}

// attachmentDir is the directory of the attachments.
type attachmentDir struct{}

func (attachmentDir) Stat() (fs.FileInfo, error) {
	return attachmentInfo{".", 0, fs.ModeDir | 0o500}, nil
}
func (attachmentDir) Read([]byte) (int, error) { return 0, fs.ErrInvalid }
func (attachmentDir) Close() error             { return nil }

// attachmentInfo describes an attachment or the directory.
type attachmentInfo struct {
	name string
	size int64
	mode fs.FileMode
}

func (e attachmentInfo) Name() string       { return e.name }
func (e attachmentInfo) Size() int64        { return e.size }
func (e attachmentInfo) Mode() fs.FileMode  { return e.mode }
func (e attachmentInfo) ModTime() time.Time { return time.Time{} }
func (e attachmentInfo) IsDir() bool        { return e.mode.IsDir() }
func (e attachmentInfo) Sys() any           { return nil }
