package vfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
)

// TempMark is part of the name of every temporary file, so that leftovers of a
// killed process can be told from real files.
const TempMark = ".tmp-"

// writeBufferBytes is large enough that flash sees long writes.
const writeBufferBytes = 1 << 20

// WriteAtomic writes a file so that, whatever happens meanwhile, name is
// either as it was before or complete and durable. It writes beside name,
// syncs, renames and syncs the directory; a failure removes the temporary.
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

// WriteFile is WriteAtomic for bytes that are at hand.
func WriteFile(fsys FS, name string, data []byte) error {
	return WriteAtomic(fsys, name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// writeDurable creates a file, lets write fill it and syncs it.
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

// removeIfExists clears a temporary that may never have come into being.
func removeIfExists(fsys FS, name string) error {
	if err := fsys.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
