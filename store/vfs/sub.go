package vfs

import "path/filepath"

// Sub returns the tree below dir of fsys. It rejects absolute names and names that escape
// with "..". It does not check symbolic links; Confine does.
func Sub(fsys FS, dir string) FS { return subFS{fsys, dir} }

// subFS implements Sub.
type subFS struct {
	fsys FS
	dir  string
}

// resolve returns the name in the underlying file system.
func (s subFS) resolve(op, name string) (string, error) {
	full := Join(s.dir, name)
	if !filepath.IsLocal(name) {
		return "", wrap(op, full, noOffset, ErrEscapes)
	}
	if name == "." {
		return s.dir, nil
	}
	return full, nil
}

func (s subFS) Open(name string) (File, error) {
	full, err := s.resolve("open", name)
	if err != nil {
		return nil, err
	}
	return s.fsys.Open(full)
}

func (s subFS) Create(name string) (File, error) {
	full, err := s.resolve("create", name)
	if err != nil {
		return nil, err
	}
	return s.fsys.Create(full)
}

func (s subFS) Stat(name string) (Info, error) {
	full, err := s.resolve("stat", name)
	if err != nil {
		return Info{}, err
	}
	return s.fsys.Stat(full)
}

func (s subFS) ReadDir(name string) ([]Info, error) {
	full, err := s.resolve("readdir", name)
	if err != nil {
		return nil, err
	}
	return s.fsys.ReadDir(full)
}

func (s subFS) MkdirAll(name string) error {
	return s.onPath("mkdir", name, s.fsys.MkdirAll)
}

func (s subFS) Remove(name string) error {
	return s.onPath("remove", name, s.fsys.Remove)
}

func (s subFS) SyncDir(name string) error {
	return s.onPath("syncdir", name, s.fsys.SyncDir)
}

// onPath calls do with the name in the underlying file system.
func (s subFS) onPath(op, name string, do func(string) error) error {
	full, err := s.resolve(op, name)
	if err != nil {
		return err
	}
	return do(full)
}

func (s subFS) Rename(oldName, newName string) error {
	oldFull, err := s.resolve("rename", oldName)
	if err != nil {
		return err
	}
	return s.onPath("rename", newName, func(newFull string) error {
		return s.fsys.Rename(oldFull, newFull)
	})
}

func (s subFS) confine(dir string) FS { return Confine(s.fsys, Join(s.dir, dir)) }
