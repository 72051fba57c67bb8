package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// OSRoot returns the tree below dir of the operating system. Names are relative to dir.
// "..", absolute names and symbolic links that point outside dir are rejected. os.Root
// checks each path element as it opens it, so a link that changes at the same time cannot
// escape either.
//
// Each call opens the directory again. There is nothing to close, and the first use reports
// a missing directory.
func OSRoot(dir string) FS { return rootFS{root: dir, sub: "."} }

// rootFS serves the directory sub below root. It reaches nothing outside root.
type rootFS struct {
	root string
	sub  string // slash-separated, relative to root
}

// path returns the path for messages.
func (r rootFS) path(name string) string { return filepath.Join(r.root, r.sub, name) }

// within opens the root and calls fn with the name relative to it.
func (r rootFS) within(op, name string, fn func(root *os.Root, name string) error) error {
	if !filepath.IsLocal(name) {
		return wrap(op, r.path(name), noOffset, ErrEscapes)
	}
	root, err := os.OpenRoot(r.root)
	if err != nil {
		return wrap(op, r.root, noOffset, err)
	}
	defer root.Close()
	err = fn(root, Join(r.sub, name))
	if errors.Is(err, linkEscapes()) {
		err = fmt.Errorf("%w: it is a link, or lies behind a link, out of %s: put the file itself there", ErrEscapes, r.root)
	}
	return wrap(op, r.path(name), noOffset, err)
}

// linkEscapes returns the error with which os.Root refuses a link out of its directory. Package
// os does not export it.
var linkEscapes = sync.OnceValue(func() error {
	root, err := os.OpenRoot(".")
	if err != nil {
		return ErrEscapes
	}
	defer root.Close()
	_, err = root.Stat("..")
	var refused *fs.PathError
	if !errors.As(err, &refused) {
		return ErrEscapes
	}
	return refused.Err
})

func (r rootFS) Open(name string) (f File, err error) {
	err = r.within("open", name, func(root *os.Root, inRoot string) (err error) {
		f, err = openRegular(inRoot, r.path(name), root.Stat, root.Open)
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (r rootFS) Create(name string) (f File, err error) {
	err = r.within("create", name, func(root *os.Root, inRoot string) error {
		opened, err := root.OpenFile(inRoot, createFlags, 0o600)
		f = &osFile{f: opened, name: r.path(name)}
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (r rootFS) Stat(name string) (info Info, err error) {
	err = r.within("stat", name, func(root *os.Root, inRoot string) error {
		found, err := root.Stat(inRoot)
		if err == nil {
			info = infoOf(found)
		}
		return err
	})
	return info, err
}

func (r rootFS) ReadDir(name string) (infos []Info, err error) {
	err = r.within("readdir", name, func(root *os.Root, inRoot string) error {
		dir, err := root.Open(inRoot)
		if err != nil {
			return err
		}
		defer dir.Close()
		entries, err := dir.ReadDir(-1)
		infos = infosOf(entries)
		return err
	})
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return infos, err
}

func (r rootFS) MkdirAll(name string) error {
	return r.within("mkdir", name, func(root *os.Root, inRoot string) error {
		return root.MkdirAll(inRoot, 0o700)
	})
}

func (r rootFS) Rename(oldName, newName string) error {
	if !filepath.IsLocal(oldName) {
		return wrap("rename", r.path(oldName), noOffset, ErrEscapes)
	}
	return r.within("rename", newName, func(root *os.Root, inRoot string) error {
		return root.Rename(Join(r.sub, oldName), inRoot)
	})
}

func (r rootFS) Remove(name string) error {
	return r.within("remove", name, func(root *os.Root, inRoot string) error {
		return root.Remove(inRoot)
	})
}

func (r rootFS) SyncDir(name string) error {
	return r.within("syncdir", name, func(root *os.Root, inRoot string) error {
		return syncDir(inRoot, root.Open)
	})
}

func (r rootFS) confine(dir string) FS { return rootFS{root: r.root, sub: Join(r.sub, dir)} }
