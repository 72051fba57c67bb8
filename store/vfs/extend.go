package vfs

import "os"

// Extend opens an existing regular file for reading and writing and keeps its content, for files that grow. It does
// not follow a symbolic link at the end of name. A file system that cannot do it returns ErrReadOnly.
func Extend(fsys FS, name string) (File, error) {
	if e, ok := fsys.(extender); ok {
		return e.extend(name)
	}
	return nil, wrap("open", name, noOffset, ErrReadOnly)
}

// extender is implemented by file systems whose files can grow after their creation.
type extender interface {
	extend(name string) (File, error)
}

func (osFS) extend(name string) (File, error) {
	return openRegular(name, name, os.Lstat, func(name string) (*os.File, error) {
		return os.OpenFile(name, os.O_RDWR|noFollow, 0)
	})
}

func (m *Mem) extend(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.find("open", name, false)
	if err != nil {
		return nil, err
	}
	return &memFile{fs: m, node: node, name: name, writable: true}, nil
}

func (f *faultyFS) extend(name string) (File, error) {
	return f.open(OpOpen, name, func(name string) (File, error) { return Extend(f.fsys, name) })
}

func (s subFS) extend(name string) (File, error) {
	full, err := s.resolve("open", name)
	if err != nil {
		return nil, err
	}
	return Extend(s.fsys, full)
}
