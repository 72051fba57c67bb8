package vfs

import "os"

// Reopen opens an existing regular file for reading and writing and keeps its content, for files that grow and programs that continue
// what it wrote before. It does not follow a symbolic link at the end of name.
func Reopen(fsys FS, name string) (File, error) {
	if r, ok := fsys.(reopener); ok {
		return r.reopen(name)
	}
	return nil, wrap("open", name, noOffset, ErrReadOnly)
}

// reopener is implemented by file systems whose files can be continued.
type reopener interface {
	reopen(name string) (File, error)
}

func (osFS) reopen(name string) (File, error) {
	return openRegular(name, name, os.Lstat, func(name string) (*os.File, error) {
		return os.OpenFile(name, os.O_RDWR|noFollow, 0)
	})
}

func (m *Mem) reopen(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.find("open", name, false)
	if err != nil {
		return nil, err
	}
	return &memFile{fs: m, node: node, name: name, writable: true}, nil
}

func (f *faultyFS) reopen(name string) (File, error) {
	return f.open(OpOpen, name, func(name string) (File, error) { return Reopen(f.fsys, name) })
}

func (t *throttledFS) reopen(name string) (File, error) { return t.throttle(Reopen(t.FS, name)) }

func (s subFS) reopen(name string) (File, error) {
	full, err := s.resolve("open", name)
	if err != nil {
		return nil, err
	}
	return Reopen(s.fsys, full)
}
