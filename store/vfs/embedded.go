package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"time"
)

// Embedded returns a file system with one file, name, whose content is data: a string
// that go:embed put into the program. Its files support reads at any offset, as FromIOFS requires.
//
// A program that accesses data maps the pages into its memory, where they stay and count
// against it. The file system therefore finds data in the program's own file and reads it
// from there. Where that fails, it copies the bytes that are read out of data, and gives the
// pages back if the system can do that (see releasePages).
func Embedded(name, data string) fs.FS {
	e := &embeddedFS{name: name, data: data}
	e.find = sync.OnceValue(e.locate)
	return e
}

// embeddedFS implements Embedded.
type embeddedFS struct {
	name, data string
	find       func() place
}

// place is a position in a file. An empty path means none.
type place struct {
	path string
	off  int64
}

// embeddedEdge is how many bytes of each end of the data must match at a place. The ends of
// a pack contain a checksum of its index, which in turn has a checksum of each block.
const embeddedEdge = 64

// locate returns the place of the data in the program's file. It accesses only the ends of
// the data.
func (e *embeddedFS) locate() place {
	if len(e.data) < 2*embeddedEdge {
		return place{}
	}
	for _, at := range mappedFrom(e.data) {
		if e.isAt(at) {
			return at
		}
	}
	return e.search()
}

// isAt reports whether the data is at a place.
func (e *embeddedFS) isAt(at place) bool {
	f, err := os.Open(at.path)
	if err != nil {
		return false
	}
	defer f.Close()
	return e.matches(f, at.off)
}

// matches compares both ends of the data with those of a range of r.
func (e *embeddedFS) matches(r io.ReaderAt, off int64) bool {
	var edge [embeddedEdge]byte
	for _, at := range []int{0, len(e.data) - embeddedEdge} {
		if _, err := r.ReadAt(edge[:], off+int64(at)); err != nil || string(edge[:]) != e.data[at:at+embeddedEdge] {
			return false
		}
	}
	return true
}

// search finds the data by reading the program's file, for systems that do not say where a
// mapping comes from.
func (e *embeddedFS) search() place {
	program, err := os.Executable()
	if err != nil {
		return place{}
	}
	f, err := os.Open(program)
	if err != nil {
		return place{}
	}
	defer f.Close()
	buf, head := make([]byte, 256<<10), []byte(e.data[:embeddedEdge])
	for off := int64(0); ; off += int64(len(buf) - embeddedEdge + 1) {
		n, err := f.ReadAt(buf, off)
		for from := 0; from < n; from++ {
			i := bytes.Index(buf[from:n], head)
			if i < 0 {
				break
			}
			from += i
			if e.matches(f, off+int64(from)) {
				return place{program, off + int64(from)}
			}
		}
		if err != nil {
			return place{}
		}
	}
}

// Open implements fs.FS.
func (e *embeddedFS) Open(name string) (fs.File, error) {
	switch {
	case name == ".":
		return &embeddedDir{entries: []fs.DirEntry{fs.FileInfoToDirEntry(e.info())}}, nil
	case name != e.name:
		err := fs.ErrNotExist
		if !fs.ValidPath(name) {
			err = fs.ErrInvalid
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	at := e.find()
	if at.path == "" {
		return &embeddedFile{io.NewSectionReader(copied(e.data), 0, int64(len(e.data))), io.NopCloser(nil), e.info()}, nil
	}
	f, err := os.Open(at.path)
	if err != nil {
		return nil, err
	}
	return &embeddedFile{io.NewSectionReader(f, at.off, int64(len(e.data))), f, e.info()}, nil
}

func (e *embeddedFS) info() fs.FileInfo { return embeddedInfo{e.name, int64(len(e.data))} }

// embeddedFile is an open file of an embeddedFS.
type embeddedFile struct {
	*io.SectionReader
	io.Closer
	info fs.FileInfo
}

func (f *embeddedFile) Stat() (fs.FileInfo, error) { return f.info, nil }

// copied reads the bytes of a string of the program.
type copied string

func (c copied) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(c)) {
		return 0, os.ErrInvalid
	}
	n := copy(p, c[off:])
	releasePages(string(c[off : off+int64(n)]))
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// embeddedDir is the open root of an embeddedFS.
type embeddedDir struct{ entries []fs.DirEntry }

func (d *embeddedDir) Stat() (fs.FileInfo, error) { return embeddedInfo{name: "."}, nil }
func (d *embeddedDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: ".", Err: errors.New("is a directory")}
}
func (d *embeddedDir) Close() error { return nil }

// ReadDir implements fs.ReadDirFile.
func (d *embeddedDir) ReadDir(n int) ([]fs.DirEntry, error) {
	list := d.entries
	if n > 0 && len(list) == 0 {
		return nil, io.EOF
	}
	d.entries = nil
	return list, nil
}

// embeddedInfo describes the file, or the root ".".
type embeddedInfo struct {
	name string
	size int64
}

func (i embeddedInfo) Name() string       { return path.Base(i.name) }
func (i embeddedInfo) Size() int64        { return i.size }
func (i embeddedInfo) ModTime() time.Time { return time.Time{} }
func (i embeddedInfo) IsDir() bool        { return i.name == "." }
func (i embeddedInfo) Sys() any           { return nil }

func (i embeddedInfo) Mode() fs.FileMode {
	if i.IsDir() {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

// ProgramOf returns the path of the program that go:embed put data into. A program that was replaced or
// removed while it runs keeps its file on systems that can name it.
func ProgramOf(data string) (string, error) {
	named, err := os.Executable()
	e := &embeddedFS{data: data}
	for _, at := range mappedFrom(data) {
		if (err != nil || !SamePath(at.path, named)) && e.isAt(at) {
			return at.path, nil
		}
	}
	return named, err
}

// SamePath reports whether two names are of one file that exists.
func SamePath(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	two, err := os.Stat(b)
	return err == nil && os.SameFile(one, two)
}
