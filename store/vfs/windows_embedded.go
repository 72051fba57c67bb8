package vfs

import (
	"errors"
	"io"
	"os"
)

// embeddedReads is a file system whose one file is embedded in the program. Mapped reads map
// windows of the program's own file.
type embeddedReads struct {
	ioFS
	data   *embeddedFS
	mapped *MappedReads
}

func (f embeddedReads) readsMapped() bool { return f.mapped.Enabled() }

func (f embeddedReads) openDirect(name string) (File, error) {
	opened, err := f.Open(name)
	if err != nil || !f.mapped.Enabled() {
		return opened, err
	}
	at := f.data.find()
	if at.path == "" {
		return opened, nil
	}
	program, err := os.Open(at.path)
	if err != nil {
		return nil, errors.Join(wrap("open", at.path, noOffset, err), opened.Close())
	}
	return &embeddedMapped{File: opened, program: &mappedFile{osFile: &osFile{f: program, name: at.path}}, from: at.off, size: int64(len(f.data.data))}, nil
}

// embeddedMapped reads an embedded file through windows of the program's file.
type embeddedMapped struct {
	File
	program    *mappedFile
	from, size int64 // range of the program's file
}

func (f *embeddedMapped) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > f.size {
		return f.File.ReadAt(p, off)
	}
	inside := min(int64(len(p)), f.size-off)
	n, err := f.program.ReadAt(p[:inside], f.from+off)
	if err == nil && n < len(p) {
		err = wrap("read", f.Name(), off+int64(n), io.EOF)
	}
	return n, err
}

func (f *embeddedMapped) Close() error { return errors.Join(f.program.Close(), f.File.Close()) }
