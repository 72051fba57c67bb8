// Package vfs provides all file access of the engine.
//
// Code that reads or writes files takes an [FS]. The same code then runs on the operating
// system ([OS], or [OSRoot] for a directory that names must not escape), in memory with
// crash simulation ([Mem]), on an embedded model ([FromIOFS]), encrypted ([Sealed]), and with
// injected faults or a slow device ([NewFaulty], [Throttled]). Begin with the interfaces FS and [File].
//
// The functions around them use optional features of an FS and fall back to the interface:
// [OpenDirect] bypasses the page cache, [ReadQueue] reads asynchronously, [Map] maps a file
// into memory, [Scratch] creates temporary files, [Reopen] opens files that grow, [Lock] locks files, [WriteAtomic]
// replaces a file atomically.
//
// Every FS in this package keeps two promises. A failed operation returns an [*IOError]
// with the path and, for reads and writes, the offset. Only regular files open: a pipe or a
// device would block or has no size.
package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// FS is a tree of files. Names use slashes; OS also accepts the separator of the operating
// system. Implementations are safe for concurrent use.
type FS interface {
	// Open opens an existing regular file for reading.
	Open(name string) (File, error)
	// Create creates or truncates a file that only its owner may access (0600) and opens it
	// for reading and writing. It does not follow a symbolic link at the end of name.
	Create(name string) (File, error)
	// Stat describes a file or directory, following symbolic links.
	Stat(name string) (Info, error)
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]Info, error)
	// MkdirAll creates a directory (0700) and its parents. An existing directory is not an
	// error.
	MkdirAll(name string) error
	// Rename moves a file. It atomically replaces newName if that exists.
	Rename(oldName, newName string) error
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// SyncDir makes the entries of the directory durable: a created or renamed file
	// survives a power loss only after SyncDir.
	SyncDir(name string) error
}

// File is an open file. It has no position: every access passes an offset, so any number of
// concurrent readers can share a File.
type File interface {
	// ReadAt fills p or returns an error. At the end of the file it returns the bytes it
	// read and an *IOError that wraps io.EOF.
	io.ReaderAt
	io.WriterAt
	// Size returns the current length in bytes.
	Size() (int64, error)
	// Sync makes the written bytes durable. After a failed Sync they must be considered
	// lost: a second Sync that succeeds proves nothing.
	Sync() error
	Truncate(size int64) error
	Close() error
	// Name returns the path for messages.
	Name() string
}

// Info describes a file or directory.
type Info struct {
	Name  string // last element of the path
	Size  int64  // bytes
	IsDir bool
}

// The causes of operations that this package rejects.
var (
	ErrNotRegular = errors.New("not a regular file")
	ErrEscapes    = errors.New("the path escapes its directory")
	ErrTooLarge   = errors.New("file exceeds the size limit")
	ErrReadOnly   = errors.New("file system is read-only")
)

// noOffset is the offset of an operation that has none.
const noOffset = -1

// IOError reports a failed file operation.
type IOError struct {
	Op   string // "open", "read", "write", "sync", …
	Path string
	Off  int64 // -1 if the operation has no offset
	Err  error
}

// Error formats the operation, the path and, if there is one, the offset.
func (e *IOError) Error() string {
	if e.Off == noOffset {
		return fmt.Sprintf("%s %s: %v", e.Op, e.Path, e.Err)
	}
	return fmt.Sprintf("%s %s at offset %d: %v", e.Op, e.Path, e.Off, e.Err)
}

// Unwrap returns the cause.
func (e *IOError) Unwrap() error { return e.Err }

// wrap converts err to an IOError. It returns an IOError unchanged and unwraps the path
// errors of package os, so that no path appears twice.
func wrap(op, path string, off int64, err error) error {
	if err == nil {
		return nil
	}
	var done *IOError
	if errors.As(err, &done) {
		return err
	}
	var pathErr *fs.PathError
	var linkErr *os.LinkError
	switch {
	case errors.As(err, &pathErr):
		err = pathErr.Err
	case errors.As(err, &linkErr):
		err = linkErr.Err
	}
	return &IOError{Op: op, Path: path, Off: off, Err: err}
}

// BeginsWith reports whether the content of a file begins with a text. A shorter file does not.
func BeginsWith(fsys FS, name, text string) (bool, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head := make([]byte, len(text))
	if _, err = f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return string(head) == text, nil
}

// ReadFile returns the content of a small file. It rejects a file longer than limit bytes
// before it allocates memory, which it reserves with the meter of fsys.
func ReadFile(fsys FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, wrap("read", f.Name(), 0, fmt.Errorf("%w: it has %d bytes, the limit is %d", ErrTooLarge, size, limit))
	}
	if err := Reserve(fsys, f.Name(), size); err != nil {
		return nil, err
	}
	data := make([]byte, size)
	if _, err := f.ReadAt(data, 0); err != nil {
		Release(fsys, size)
		return nil, err
	}
	return data, nil
}

// Join returns the path of name below dir. Both may use slashes on every system.
func Join(dir, name string) string {
	if dir == "" || dir == "." {
		return name
	}
	if os.IsPathSeparator(dir[len(dir)-1]) {
		return dir + name
	}
	return dir + "/" + name
}

// Split splits a path into its directory and its last element. The directory of a bare name
// is ".".
func Split(name string) (dir, base string) {
	dir, base = filepath.Split(name)
	if len(dir) > len(filepath.VolumeName(dir))+1 {
		dir = strings.TrimRightFunc(dir, func(r rune) bool { return r == '/' || r == filepath.Separator })
	}
	if dir == "" {
		dir = "."
	}
	return dir, base
}

// confiner is implemented by file systems that check more than the text of a name, as Sub
// does, or that must wrap the confined tree again.
type confiner interface {
	confine(dir string) FS
}

// Confine returns the tree below dir as a file system that no name escapes. On the
// operating system that includes symbolic links (see OSRoot). Use Confine to open files
// that are named inside other files.
func Confine(fsys FS, dir string) FS {
	if c, ok := fsys.(confiner); ok {
		return c.confine(dir)
	}
	return Sub(fsys, dir)
}
