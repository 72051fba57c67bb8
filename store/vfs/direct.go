package vfs

import (
	"io"
	"os"
	"sync/atomic"
	"time"
	"unsafe"
)

// DirectAlign is what offset, length and memory of a read have to be multiples
// of to go past the operating system's page cache.
const DirectAlign = 4096

// DirectSize rounds a number of bytes up to what a direct read of them takes.
func DirectSize[T int | int64](n T) T { return (n + DirectAlign - 1) &^ (DirectAlign - 1) }

// directOpener is implemented by file systems that can read past the page cache.
type directOpener interface {
	openDirect(name string) (File, error)
}

// OpenDirect opens a file whose large reads are to leave no copy in the page
// cache: weights that pass through a ring are read again and again, in a cycle
// that no cache of a smaller size serves, and a copy in the cache would take the
// memory twice. Reads that are not aligned to [DirectAlign], and all reads where
// the file system cannot do better, go through the cache as usual; the bytes
// are the same.
func OpenDirect(fsys FS, name string) (File, error) {
	if d, ok := fsys.(directOpener); ok {
		return d.openDirect(name)
	}
	return fsys.Open(name)
}

// directFile reads aligned pieces through one file handle and the rest through
// another.
type directFile struct {
	File                // through the page cache
	direct  io.ReaderAt // past it; nil where that cannot be done
	close   func() error
	refused atomic.Bool // the system refused a direct read: there is no use in trying again
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

// cached reads through the page cache and leaves as little there as it can.
func (f *directFile) cached(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if o, ok := f.File.(*osFile); ok && n >= DirectAlign {
		dropBehind(o.f, off, int64(n))
	}
	return n, err
}

// directHandle is what a ReadQueue reads.
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

// AlignDirect returns the part of p that begins where a direct read may write.
func AlignDirect(p []byte) []byte {
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(p)))) & (DirectAlign - 1)
	return p[min(skip, len(p)):]
}

// aligned reports whether memory begins where a direct read may write.
func aligned(p []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(p)))%DirectAlign == 0
}
