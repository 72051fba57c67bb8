package vfs

import (
	"io"
	"io/fs"
)

// memFile is an open file of a Mem.
type memFile struct {
	fs       *Mem
	node     *memNode
	name     string
	writable bool
	closed   bool // guarded by fs.mu
}

// lock acquires the mutex of the file system and checks that the operation is valid. The
// mutex is released on error.
func (f *memFile) lock(op string, off int64, write bool) error {
	hasOffset := op == "read" || op == "write" || op == "truncate"
	f.fs.mu.Lock()
	var err error
	switch {
	case f.closed:
		err = fs.ErrClosed
	case write && !f.writable:
		err = fs.ErrPermission
	case hasOffset && off < 0:
		err = fs.ErrInvalid
	default:
		return nil
	}
	f.fs.mu.Unlock()
	return wrap(op, f.name, off, err)
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.lock("read", off, false); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	n := 0
	if off < int64(len(f.node.data)) {
		n = copy(p, f.node.data[off:])
	}
	if n < len(p) {
		return n, wrap("read", f.name, off+int64(n), io.EOF)
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.lock("write", off, true); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	f.node.pending = append(f.node.pending, memChange{off, append([]byte{}, p...)})
	f.node.data = writeInto(f.node.data, p, off)
	return len(p), nil
}

// writeInto writes p at off and fills a gap with zeros.
func writeInto(data, p []byte, off int64) []byte {
	if grow := off + int64(len(p)) - int64(len(data)); grow > 0 && len(p) > 0 {
		data = append(data, make([]byte, grow)...)
	}
	copy(data[min(off, int64(len(data))):], p)
	return data
}

func (f *memFile) Truncate(size int64) error {
	if err := f.lock("truncate", size, true); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	f.node.truncate(size)
	return nil
}

func (n *memNode) truncate(size int64) {
	n.pending = append(n.pending, memChange{off: size})
	n.data = resize(n.data, size)
}

// resize truncates data or extends it with zeros.
func resize(data []byte, size int64) []byte {
	if grow := size - int64(len(data)); grow > 0 {
		return append(data, make([]byte, grow)...)
	}
	return data[:size:size]
}

func (f *memFile) Size() (int64, error) {
	if err := f.lock("stat", noOffset, false); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	return int64(len(f.node.data)), nil
}

func (f *memFile) Sync() error {
	if err := f.lock("sync", noOffset, false); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	for _, c := range f.node.pending {
		f.node.synced = c.apply(f.node.synced)
	}
	f.node.pending = nil
	return nil
}

// apply applies the change to the content of a file.
func (c memChange) apply(data []byte) []byte {
	if c.data == nil {
		return resize(data, c.off)
	}
	return writeInto(data, c.data, c.off)
}

func (f *memFile) Close() error {
	if err := f.lock("close", noOffset, false); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	f.closed = true
	return nil
}

func (f *memFile) Name() string { return f.name }
