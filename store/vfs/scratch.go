package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
)

// Scratch creates a temporary file in dir that only its owner may access. The file
// disappears when it is closed or the process ends for any reason. Where the system cannot
// remove open files, Close removes it. Reads and writes that are aligned to [DirectAlign]
// bypass the page cache if possible.
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

// scratcher is implemented by file systems with direct writes and by wrappers.
type scratcher interface {
	scratch(dir string) (File, error)
}

const scratchPrefix, scratchSuffix = "scratch-", ".tmp"

func scratchName(dir string) string {
	return Join(dir, fmt.Sprintf("%s%d-%016x%s", scratchPrefix, os.Getpid(), rand.Uint64(), scratchSuffix))
}

// IsScratchName reports whether a file in a directory is one of [Scratch].
func IsScratchName(name string) bool {
	return strings.HasPrefix(name, scratchPrefix) && strings.HasSuffix(name, scratchSuffix)
}

// SweepScratch removes the files of [Scratch] in dir that processes left when they were killed. A file of a
// process that runs has a name only where the system does not remove open files, so it stays.
func SweepScratch(fsys FS, dir string) error {
	if s, ok := fsys.(scratchSweeper); ok {
		return s.sweepScratch(dir)
	}
	files, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range files {
		if IsScratchName(f.Name) && !f.IsDir {
			_ = fsys.Remove(Join(dir, f.Name)) // in use, or the next sweep retries
		}
	}
	return err
}

// scratchSweeper is implemented by file systems whose scratch files have other names than their files.
type scratchSweeper interface{ sweepScratch(dir string) error }

// unlink removes the name of an open file, now or on Close.
func unlink(fsys FS, f File, name string) File {
	if err := fsys.Remove(name); err == nil || errors.Is(err, fs.ErrNotExist) { // another process may have swept it
		return f
	}
	return &removeOnClose{File: f, remove: func() error { return fsys.Remove(name) }}
}

// removeOnClose is a file that Close removes.
type removeOnClose struct {
	File
	remove func() error
}

func (f *removeOnClose) Close() error {
	err := f.File.Close()
	if removeErr := f.remove(); err == nil && !errors.Is(removeErr, fs.ErrNotExist) {
		err = removeErr
	}
	return err
}

func (f *removeOnClose) allocate(size int64) error { return Allocate(f.File, size) }

// scratchFile is a directFile with direct writes.
type scratchFile struct {
	directFile
	directWriter io.WriterAt // nil if the file system has no direct writes
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
