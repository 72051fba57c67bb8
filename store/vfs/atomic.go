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
	temp := fmt.Sprintf("%s%s%016x", name, TempMark, rand.Uint64())
	if err := writeDurable(fsys, temp, write); err != nil {
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

// writeDurable creates a file, calls write to fill it and syncs it.
func writeDurable(fsys FS, name string, write func(w io.Writer) error) (err error) {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(io.NewOffsetWriter(f, 0), writeBufferBytes)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Sync()
}

// removeIfExists removes a temporary file that may not exist.
func removeIfExists(fsys FS, name string) error {
	if err := fsys.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
