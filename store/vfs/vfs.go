// Package vfs is the only door between the engine and files.
//
// Everything that reads or writes bytes on flash takes an [FS]. The same code
// then runs on the operating system ([OS], or [OSRoot] for directories that
// must not be left), in memory with crash simulation ([Mem]), on a bundled
// model ([FromIOFS]), and under injected faults or a slow device ([NewFaulty],
// [Throttled]).
//
// Two promises hold for every FS here. Each failed operation is reported as an
// [*IOError] that carries the path and, for reads and writes, the offset. And
// only regular files open: a pipe or a device would block or have no size.
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

// FS is a tree of files. Names use slashes (the operating system's own
// separators work as well on OS). Implementations are safe for concurrent use.
type FS interface {
	// Open opens an existing regular file for reading.
	Open(name string) (File, error)
	// Create makes or truncates a file that only its owner may access (0600)
	// and opens it for reading and writing.
	Create(name string) (File, error)
	// Stat describes a file or directory, following symbolic links.
	Stat(name string) (Info, error)
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]Info, error)
	// MkdirAll makes a directory (0700) and its parents; one that exists is
	// not an error.
	MkdirAll(name string) error
	// Rename moves a file, replacing newName atomically if it exists.
	Rename(oldName, newName string) error
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// SyncDir makes the directory's entries durable: a created or renamed
	// file survives power loss only after this.
	SyncDir(name string) error
}

// File is an open file, without a position: every access names its offset, so
// one File serves any number of concurrent readers.
type File interface {
	// ReadAt fills p or fails. A read that meets the end of the file returns
	// what there was and an *IOError that wraps io.EOF.
	io.ReaderAt
	io.WriterAt
	// Size returns the file's present length in bytes.
	Size() (int64, error)
	// Sync makes the bytes written so far durable. After a failed Sync they
	// must be taken for lost: trying again proves nothing.
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

// Sentinels for refusals that are this package's own.
var (
	ErrNotRegular = errors.New("not a regular file")
	ErrEscapes    = errors.New("the path leads out of its directory")
	ErrTooLarge   = errors.New("file is larger than this kind of file may be")
	ErrReadOnly   = errors.New("file system is read-only")
)

// noOffset marks an operation that has no place inside a file.
const noOffset = -1

// IOError reports a failed operation on a file.
type IOError struct {
	Op   string // "open", "read", "write", "sync", …
	Path string
	Off  int64 // where in the file; -1 when the operation has no offset
	Err  error
}

// Error names the operation, the path and, where there is one, the offset.
func (e *IOError) Error() string {
	if e.Off == noOffset {
		return fmt.Sprintf("%s %s: %v", e.Op, e.Path, e.Err)
	}
	return fmt.Sprintf("%s %s at offset %d: %v", e.Op, e.Path, e.Off, e.Err)
}

// Unwrap returns the cause.
func (e *IOError) Unwrap() error { return e.Err }

// wrap dresses err as an IOError. An error that already is one stays as it is,
// and the path wrappers of package os are peeled so that no path shows twice.
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

// ReadFile returns the whole of a small file. A file longer than limit bytes
// is refused before anything is allocated.
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
		return nil, wrap("read", f.Name(), 0, fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, size, limit))
	}
	data := make([]byte, size)
	if _, err := f.ReadAt(data, 0); err != nil {
		return nil, err
	}
	return data, nil
}

// Join puts name below dir. Both may use slashes on every system.
func Join(dir, name string) string {
	if dir == "" || dir == "." {
		return name
	}
	if os.IsPathSeparator(dir[len(dir)-1]) {
		return dir + name
	}
	return dir + "/" + name
}

// Split cuts a path into its directory, "." when it names none, and its last
// element.
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

// confiner is implemented by file systems that can do better than the textual
// check of Sub, or that must wrap the confined tree again.
type confiner interface {
	confine(dir string) FS
}

// Confine returns the tree below dir as a file system that no name leads out
// of. On the operating system that holds for symbolic links too (see OSRoot),
// which makes it the way to open files that are named inside other files.
func Confine(fsys FS, dir string) FS {
	if c, ok := fsys.(confiner); ok {
		return c.confine(dir)
	}
	return Sub(fsys, dir)
}
