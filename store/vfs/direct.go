package vfs

import (
	"io"
	"os"
	"sync/atomic"
	"time"
	"unsafe"
)

// DirectAlign is the required alignment of offset, length and memory of a direct read,
// which bypasses the page cache.
const DirectAlign = 4096

// DirectSize rounds a byte count up to the length of a direct read.
func DirectSize[T int | int64](n T) T { return (n + DirectAlign - 1) &^ (DirectAlign - 1) }

// directOpener is implemented by file systems with direct reads.
type directOpener interface {
	openDirect(name string) (File, error)
}

// OpenDirect opens a file whose large reads bypass the page cache. The engine reads
// streamed weights in a cycle that exceeds the available memory, so the page cache would
// evict every page before its next use. Reads that are not aligned to [DirectAlign], and
// all reads on file systems without direct reads, go through the cache and return the same
// bytes.
func OpenDirect(fsys FS, name string) (File, error) {
	if d, ok := fsys.(directOpener); ok {
		return d.openDirect(name)
	}
	return fsys.Open(name)
}

func (fsys osFS) openDirect(name string) (File, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	file := f.(*osFile)
	if fsys.mapped.Enabled() {
		return &mappedFile{osFile: file}, nil
	}
	d := &directFile{File: file, close: func() error { return nil }}
	if direct := fsys.directReader(name); direct != nil {
		d.direct, d.close = direct, direct.Close
	}
	return d, nil
}

// directFile reads aligned ranges through one file handle and other ranges through a second
// one.
type directFile struct {
	File                // reads through the page cache
	direct  io.ReaderAt // bypasses the page cache; nil if the file system has no direct reads
	close   func() error
	refused atomic.Bool // the system rejected a direct read: do not try again
}

func (f *directFile) ReadAt(p []byte, off int64) (int, error) {
	n := len(p) &^ (DirectAlign - 1)
	if n == 0 || off%DirectAlign != 0 || !aligned(p) || f.direct == nil || f.refused.Load() {
		return f.cached(p, off)
	}
	got, err := f.direct.ReadAt(p[:n], off)
	switch {
	case err != nil && directRefused(err):
		f.refused.Store(true)
		return f.cached(p, off)
	case err != nil:
		return got, wrap("read", f.Name(), off+int64(got), err)
	case n == len(p):
		return n, nil
	}
	rest, err := f.File.ReadAt(p[n:], off+int64(n))
	return n + rest, err
}

// cached reads through the page cache and then drops the bytes from the cache.
func (f *directFile) cached(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if o, ok := f.File.(*osFile); ok && n >= DirectAlign {
		dropBehind(o.f, off, int64(n))
	}
	return n, err
}

// directHandle implements queueable.
func (f *directFile) directHandle() *os.File {
	if f.refused.Load() {
		return nil
	}
	o, _ := f.direct.(*os.File)
	return o
}

func (f *directFile) notBefore(int) time.Time { return time.Time{} }

func (f *directFile) Close() error {
	err := f.close()
	if closed := f.File.Close(); err == nil {
		err = closed
	}
	return err
}

// AlignDirect returns the part of p that begins at the first address with direct-read
// alignment.
func AlignDirect(p []byte) []byte {
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(p)))) & (DirectAlign - 1)
	return p[min(skip, len(p)):]
}

// aligned reports whether p begins at an address with direct-read alignment.
func aligned(p []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(p)))%DirectAlign == 0
}
