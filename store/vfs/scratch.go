package vfs

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
)

// Scratch makes a file in dir for what a program keeps for itself: only its owner
// may access it, and it is gone when it is closed or the program ends, however
// that ends. Where open files cannot be removed, it is removed when it is closed.
// Reads and writes that are aligned to [DirectAlign] go past the page cache where
// that is possible.
func Scratch(fsys FS, dir string) (File, error) {
	if s, ok := fsys.(scratcher); ok {
		return s.scratch(dir)
	}
	name := scratchName(dir)
	f, err := fsys.Create(name)
	if err != nil {
		return nil, err
	}
	return unlink(fsys, f, name), nil
}

// scratcher is implemented by file systems that can do better, or that wrap
// others.
type scratcher interface {
	scratch(dir string) (File, error)
}

func scratchName(dir string) string {
	return Join(dir, fmt.Sprintf("scratch-%d-%016x.tmp", os.Getpid(), rand.Uint64()))
}

// unlink removes the name of an open file, now or when it is closed.
func unlink(fsys FS, f File, name string) File {
	if fsys.Remove(name) == nil {
		return f
	}
	return &removeOnClose{File: f, remove: func() error { return fsys.Remove(name) }}
}

// removeOnClose is a file that is removed when it is closed.
type removeOnClose struct {
	File
	remove func() error
}

func (f *removeOnClose) Close() error {
	err := f.File.Close()
	if removed := f.remove(); err == nil {
		err = removed
	}
	return err
}

func (f *removeOnClose) allocate(size int64) error { return Allocate(f.File, size) }

// scratchFile is a directFile that is written past the page cache too.
type scratchFile struct {
	directFile
	directWriter io.WriterAt // nil where that cannot be done
}

func (f *scratchFile) WriteAt(p []byte, off int64) (int, error) {
	if f.directWriter != nil && len(p) > 0 && (len(p)|int(off))%DirectAlign == 0 && aligned(p) && !f.refused.Load() {
		n, err := f.directWriter.WriteAt(p, off)
		if err == nil || !directRefused(err) {
			return n, wrap("write", f.Name(), off+int64(n), err)
		}
		f.refused.Store(true)
	}
	n, err := f.File.WriteAt(p, off)
	if o, ok := f.File.(*osFile); ok {
		dropBehind(o.f, off, int64(n))
	}
	return n, err
}

func (f *scratchFile) allocate(size int64) error { return Allocate(f.File, size) }
