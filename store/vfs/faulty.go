package vfs

import (
	"sync/atomic"
)

// OpKind is the kind of a file operation.
type OpKind string

// The operations that NewFaulty passes to its fault function.
const (
	OpOpen     OpKind = "open"
	OpCreate   OpKind = "create"
	OpStat     OpKind = "stat"
	OpReadDir  OpKind = "readdir"
	OpMkdir    OpKind = "mkdir"
	OpRename   OpKind = "rename"
	OpRemove   OpKind = "remove"
	OpSyncDir  OpKind = "syncdir"
	OpRead     OpKind = "read"
	OpWrite    OpKind = "write"
	OpSize     OpKind = "size"
	OpSync     OpKind = "sync"
	OpTruncate OpKind = "truncate"
	OpAllocate OpKind = "allocate"
	OpTouch    OpKind = "touch"
	OpClose    OpKind = "close"
)

// Op is an operation that is about to run.
type Op struct {
	Kind   OpKind
	Path   string // of a rename: the new name
	Offset int64  // -1 if the operation has no offset
	Len    int    // bytes to read or write
	Index  int64  // number of earlier operations on this file system
}

// NewFaulty returns fsys with injected faults. It calls fault before each operation; if
// fault returns an error, the operation fails with this error and does not run. A failing
// Close still closes the file, so that tests leak no files. fault must be safe for
// concurrent calls.
func NewFaulty(fsys FS, fault func(Op) error) FS {
	return &faultyFS{fsys: fsys, faults: &faults{decide: fault}}
}

// faults numbers the operations on a file system and on all its files.
type faults struct {
	decide func(Op) error
	next   atomic.Int64
}

func (f *faults) check(kind OpKind, path string, off int64, n int) error {
	op := Op{Kind: kind, Path: path, Offset: off, Len: n, Index: f.next.Add(1) - 1}
	return wrap(string(kind), path, off, f.decide(op))
}

// faultyFS implements NewFaulty.
type faultyFS struct {
	fsys FS
	*faults
}

func (f *faultyFS) Open(name string) (File, error) {
	return f.open(OpOpen, name, f.fsys.Open)
}

func (f *faultyFS) openDirect(name string) (File, error) {
	return f.open(OpOpen, name, func(name string) (File, error) { return OpenDirect(f.fsys, name) })
}

func (f *faultyFS) Create(name string) (File, error) {
	return f.open(OpCreate, name, f.fsys.Create)
}

func (f *faultyFS) scratch(dir string) (File, error) {
	return f.open(OpCreate, dir, func(dir string) (File, error) { return Scratch(f.fsys, dir) })
}

// open checks for a fault, opens a file and wraps it.
func (f *faultyFS) open(kind OpKind, name string, open func(string) (File, error)) (File, error) {
	if err := f.check(kind, name, noOffset, 0); err != nil {
		return nil, err
	}
	file, err := open(name)
	if err != nil {
		return nil, err
	}
	return &faultyFile{file: file, faults: f.faults}, nil
}

func (f *faultyFS) Stat(name string) (Info, error) {
	if err := f.check(OpStat, name, noOffset, 0); err != nil {
		return Info{}, err
	}
	return f.fsys.Stat(name)
}

func (f *faultyFS) ReadDir(name string) ([]Info, error) {
	if err := f.check(OpReadDir, name, noOffset, 0); err != nil {
		return nil, err
	}
	return f.fsys.ReadDir(name)
}

func (f *faultyFS) MkdirAll(name string) error {
	if err := f.check(OpMkdir, name, noOffset, 0); err != nil {
		return err
	}
	return f.fsys.MkdirAll(name)
}

func (f *faultyFS) Rename(oldName, newName string) error {
	if err := f.check(OpRename, newName, noOffset, 0); err != nil {
		return err
	}
	return f.fsys.Rename(oldName, newName)
}

func (f *faultyFS) Remove(name string) error {
	if err := f.check(OpRemove, name, noOffset, 0); err != nil {
		return err
	}
	return f.fsys.Remove(name)
}

func (f *faultyFS) SyncDir(name string) error {
	if err := f.check(OpSyncDir, name, noOffset, 0); err != nil {
		return err
	}
	return f.fsys.SyncDir(name)
}

func (f *faultyFS) confine(dir string) FS {
	return &faultyFS{fsys: Confine(f.fsys, dir), faults: f.faults}
}

// faultyFile is an open file of a faultyFS.
type faultyFile struct {
	file File
	*faults
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.check(OpRead, f.Name(), off, len(p)); err != nil {
		return 0, err
	}
	return f.file.ReadAt(p, off)
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.check(OpWrite, f.Name(), off, len(p)); err != nil {
		return 0, err
	}
	return f.file.WriteAt(p, off)
}

func (f *faultyFile) Size() (int64, error) {
	if err := f.check(OpSize, f.Name(), noOffset, 0); err != nil {
		return 0, err
	}
	return f.file.Size()
}

func (f *faultyFile) Sync() error {
	if err := f.check(OpSync, f.Name(), noOffset, 0); err != nil {
		return err
	}
	return f.file.Sync()
}

func (f *faultyFile) Truncate(size int64) error {
	if err := f.check(OpTruncate, f.Name(), size, 0); err != nil {
		return err
	}
	return f.file.Truncate(size)
}

func (f *faultyFile) Close() error {
	fault := f.check(OpClose, f.Name(), noOffset, 0)
	if err := f.file.Close(); err != nil {
		return err
	}
	return fault
}

func (f *faultyFile) Name() string { return f.file.Name() }

// osFaults is the function that SetFaults has set, nil outside of tests.
var osFaults atomic.Pointer[faults]

// SetFaults injects faults into the operations of the operating system's files in tests, also
// where a program takes no FS: as long as fault is set, OS and OSOwn return NewFaulty of the
// operating system with it. Files that were opened meanwhile keep the faults. nil restores the normal
// behavior. Files with faults cannot be mapped.
func SetFaults(fault func(Op) error) {
	if fault == nil {
		osFaults.Store(nil)
		return
	}
	osFaults.Store(&faults{decide: fault})
}

// withFaults returns fsys with the faults that a test has set.
func withFaults(fsys FS) FS {
	if f := osFaults.Load(); f != nil {
		return &faultyFS{fsys: fsys, faults: f}
	}
	return fsys
}
