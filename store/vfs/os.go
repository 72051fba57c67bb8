package vfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// OS returns the file system of the operating system.
func OS() FS {
	return withFaults(osFS{})
}

// OSOwn returns the file system of the operating system for directories that only the program
// writes to, such as a cache. It opens no symbolic link at the end of a name, also for reading:
// the program creates none, so a link there was made by somebody else.
func OSOwn() FS { return withFaults(osFS{own: true}) }

// osFS implements OS and OSOwn.
type osFS struct {
	own    bool
	mapped *MappedReads // nil: never
}

func (fsys osFS) Open(name string) (File, error) {
	if fsys.own {
		return openRegular(name, name, os.Lstat, openNoFollow)
	}
	return openRegular(name, name, os.Stat, os.Open)
}

func openNoFollow(name string) (*os.File, error) { return os.OpenFile(name, os.O_RDONLY|noFollow, 0) }

// openRegular opens name with the given functions. It calls stat first because opening a
// named pipe would block until a writer appears.
func openRegular(name, shown string, stat func(string) (os.FileInfo, error), open func(string) (*os.File, error)) (File, error) {
	info, err := stat(name)
	if err != nil {
		return nil, wrap("open", shown, noOffset, err)
	}
	if !info.Mode().IsRegular() {
		return nil, wrap("open", shown, noOffset, ErrNotRegular)
	}
	f, err := open(name)
	if err != nil {
		return nil, wrap("open", shown, noOffset, err)
	}
	return &osFile{f: f, name: shown}, nil
}

// createFlags refuse a symbolic link: the program writes below directories that other
// programs may have written to, and a link there must not make it overwrite another file.
const createFlags = os.O_RDWR | os.O_CREATE | os.O_TRUNC | noFollow

func (osFS) Create(name string) (File, error) {
	f, err := os.OpenFile(name, createFlags, 0o600)
	if err != nil {
		return nil, wrap("create", name, noOffset, err)
	}
	return &osFile{f: f, name: name}, nil
}

func (osFS) Stat(name string) (Info, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Info{}, wrap("stat", name, noOffset, err)
	}
	return infoOf(info), nil
}

func infoOf(info fs.FileInfo) Info {
	return Info{Name: info.Name(), Size: info.Size(), IsDir: info.IsDir()}
}

func (osFS) ReadDir(name string) ([]Info, error) {
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, wrap("readdir", name, noOffset, err)
	}
	return infosOf(entries), nil
}

// infosOf skips entries that were removed after the directory was listed.
func infosOf(entries []fs.DirEntry) []Info {
	infos := make([]Info, 0, len(entries))
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			infos = append(infos, infoOf(info))
		}
	}
	return infos
}

func (osFS) MkdirAll(name string) error {
	return wrap("mkdir", name, noOffset, os.MkdirAll(name, 0o700))
}

func (osFS) Rename(oldName, newName string) error {
	return wrap("rename", newName, noOffset, os.Rename(oldName, newName))
}

func (osFS) Remove(name string) error {
	return wrap("remove", name, noOffset, os.Remove(name))
}

func (osFS) SyncDir(name string) error {
	return wrap("syncdir", name, noOffset, syncDir(name, os.Open))
}

// syncDir syncs the entries of a directory. Windows has no such call; its file systems
// journal renames.
func syncDir(name string, open func(string) (*os.File, error)) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// confine confines a hub snapshot to its repository and other directories to themselves.
func (osFS) confine(dir string) FS {
	if hub, inside, ok := hubSnapshot(dir); ok {
		return rootFS{root: hub, sub: inside}
	}
	return OSRoot(dir)
}

// hubSnapshot recognizes a snapshot directory in the cache of the Hugging Face hub client:
// REPO/snapshots/REVISION, whose files are symbolic links into REPO/blobs, and directories
// below it. Such a directory is confined to REPO, because its files could not be opened
// otherwise. dir may itself be a link to one.
func hubSnapshot(dir string) (repo, inside string, ok bool) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", "", false
	}
	for _, at := range []string{abs, resolved(abs)} {
		for snapshots := filepath.Dir(at); snapshots != filepath.Dir(snapshots); snapshots = filepath.Dir(snapshots) {
			repo = filepath.Dir(snapshots)
			if filepath.Base(snapshots) != "snapshots" {
				continue
			}
			if info, err := os.Stat(filepath.Join(repo, "blobs")); err == nil && info.IsDir() {
				return repo, "snapshots/" + filepath.ToSlash(strings.TrimPrefix(at, snapshots+string(filepath.Separator))), true
			}
		}
	}
	return "", "", false
}

// resolved returns a path without links, or the path itself if that fails.
func resolved(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return path
}

// osFile adds path and offset to the errors of an os.File.
type osFile struct {
	f    *os.File
	name string
}

func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.f.ReadAt(p, off)
	return n, wrap("read", f.name, off+int64(n), err)
}

func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.f.WriteAt(p, off)
	return n, wrap("write", f.name, off+int64(n), err)
}

func (f *osFile) Size() (int64, error) {
	info, err := f.f.Stat()
	if err != nil {
		return 0, wrap("stat", f.name, noOffset, err)
	}
	return info.Size(), nil
}

func (f *osFile) Sync() error { return wrap("sync", f.name, noOffset, syncFile(f.f)) }

func (f *osFile) Truncate(size int64) error {
	return wrap("truncate", f.name, size, f.f.Truncate(size))
}

func (f *osFile) Close() error { return wrap("close", f.name, noOffset, f.f.Close()) }

func (f *osFile) Name() string { return f.name }
