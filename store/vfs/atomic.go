package vfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
)

// TempMark is part of the name of every temporary file. It identifies the leftovers of a
// killed process.
const TempMark = ".tmp-"

// writeBufferBytes is large enough that the flash receives long writes.
const writeBufferBytes = 1 << 20

// WriteAtomic writes a file such that after a crash or a failure name is either unchanged
// or complete and durable. It writes a temporary file beside name, syncs it, renames it and
// syncs the directory. It removes the temporary file on failure.
func WriteAtomic(fsys FS, name string, write func(w io.Writer) error) error {
	return writeAtomic(fsys, name, write, func(File) {}, func(File) {})
}

// WriteExecutable is WriteAtomic for a program: every user may read and run the file.
func WriteExecutable(fsys FS, name string, write func(w io.Writer) error) error {
	return writeAtomic(fsys, name, write, makeExecutable, forget)
}

// makeExecutable permits to run a file that was just created. It fails on file systems without such permissions only,
// from which other files are run, or none.
func makeExecutable(f File) {
	if o, ok := f.(*osFile); ok {
		_ = o.f.Chmod(0o755)
	}
}

// forget takes a file that was written out of the page cache. Long writes leave large pages there, of which the
// system maps several MiB that a program does not use.
func forget(f File) {
	if o, ok := f.(*osFile); ok {
		dropBehind(o.f, 0, 0)
	}
}

func writeAtomic(fsys FS, name string, write func(w io.Writer) error, prepare, end func(File)) error {
	temp := fmt.Sprintf("%s%s%016x", name, TempMark, rand.Uint64())
	if err := writeDurable(fsys, temp, write, prepare, end); err != nil {
		return errors.Join(err, removeIfExists(fsys, temp))
	}
	if err := fsys.Rename(temp, name); err != nil {
		return errors.Join(err, removeIfExists(fsys, temp))
	}
	dir, _ := Split(name)
	return fsys.SyncDir(dir)
}

// WriteFile is WriteAtomic for bytes in memory.
func WriteFile(fsys FS, name string, data []byte) error {
	return WriteAtomic(fsys, name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// writeDurable creates and prepares a file, calls write to fill it, syncs it and calls end.
func writeDurable(fsys FS, name string, write func(w io.Writer) error, prepare, end func(File)) (err error) {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	prepare(f)
	w := bufio.NewWriterSize(io.NewOffsetWriter(f, 0), writeBufferBytes)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	end(f)
	return nil
}

// removeIfExists removes a temporary file that may not exist.
func removeIfExists(fsys FS, name string) error {
	if err := fsys.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
