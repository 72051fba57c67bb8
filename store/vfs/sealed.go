package vfs

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// SealKeyBytes is the size of the key of [Sealed].
const SealKeyBytes = 32

// ErrSeal reports that bytes of a sealed file are not what was written: the file is damaged,
// incomplete, or not written with this key.
var ErrSeal = errors.New("the file is damaged, incomplete, or sealed with another key")

// Sealed returns fsys with the content and the names of all files encrypted. Everything in the
// result that lists or opens files knows only those that were written with the same key; all
// others stay as they are.
//
// A file is encrypted in blocks of 4096 bytes; see sealedFile. Each file has its own
// key, derived from key and a random salt. A name is encrypted under a keyed hash of itself, so
// that equal names stay equal and nothing else is known about them except their approximate
// length. Directories keep their names. Sizes, times and the number of files are not hidden.
//
// A file can be written only by the handle that created it. Stat and ReadDir return sizes on
// the disk, which are a little larger than those of the content.
func Sealed(fsys FS, key [SealKeyBytes]byte) FS {
	return &sealedFS{fsys: fsys, key: key, names: newNameCipher(key), buffers: newSealBuffers(sealBatch), single: newSealBuffers(1), tables: &tableRoom{}}
}

// sealedFS implements Sealed.
type sealedFS struct {
	fsys    FS
	key     [SealKeyBytes]byte
	names   *nameCipher
	buffers *sealBuffers // of sealBatch blocks
	single  *sealBuffers // of one block
	tables  *tableRoom
}

// path returns the path of a file on the disk.
func (s *sealedFS) path(name string) string {
	dir, base := Split(name)
	sealed := s.names.seal(base)
	if dir == "." && !strings.HasPrefix(name, ".") {
		return sealed
	}
	return Join(dir, sealed)
}

func (s *sealedFS) Open(name string) (File, error) { return s.open(name, s.fsys.Open) }

func (s *sealedFS) openDirect(name string) (File, error) {
	return s.open(name, func(path string) (File, error) { return OpenDirect(s.fsys, path) })
}

func (s *sealedFS) open(name string, open func(string) (File, error)) (File, error) {
	file, err := open(s.path(name))
	if err != nil {
		return nil, err
	}
	f, err := openSealed(file, name, s)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return f, nil
}

func (s *sealedFS) Create(name string) (File, error) {
	file, err := s.fsys.Create(s.path(name))
	if err != nil {
		return nil, err
	}
	f, err := createSealed(file, name, s)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return f, nil
}

// scratch returns a temporary file with a random key that only this process knows, and its table
// in another temporary file.
func (s *sealedFS) scratch(dir string) (File, error) {
	file, err := Scratch(s.fsys, dir)
	if err != nil {
		return nil, err
	}
	tags, err := Scratch(s.fsys, dir)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return scratchSealed(file, tags, s), nil
}

// sweepScratch sweeps below the encryption, where scratch files have their plain names.
func (s *sealedFS) sweepScratch(dir string) error { return SweepScratch(s.fsys, dir) }

// Stat describes a sealed file or a directory.
func (s *sealedFS) Stat(name string) (Info, error) {
	info, err := s.fsys.Stat(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		dir, failed := s.fsys.Stat(name)
		if failed == nil && dir.IsDir || failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			return dir, failed
		}
	}
	_, info.Name = Split(name)
	return info, err
}

// ReadDir lists directories and the files that were sealed with this key.
func (s *sealedFS) ReadDir(name string) ([]Info, error) {
	all, err := s.fsys.ReadDir(name)
	if err != nil {
		return nil, err
	}
	list := all[:0]
	for _, info := range all {
		if !info.IsDir {
			base, ok := s.names.open(info.Name)
			if !ok {
				continue
			}
			info.Name = base
		}
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func (s *sealedFS) MkdirAll(name string) error { return s.fsys.MkdirAll(name) }

func (s *sealedFS) SyncDir(name string) error { return s.fsys.SyncDir(name) }

// Rename moves a sealed file; a directory cannot be moved.
func (s *sealedFS) Rename(oldName, newName string) error {
	return s.fsys.Rename(s.path(oldName), s.path(newName))
}

// Remove deletes a sealed file or an empty directory.
func (s *sealedFS) Remove(name string) error {
	err := s.fsys.Remove(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		if dir, failed := s.fsys.Stat(name); failed == nil && dir.IsDir {
			return s.fsys.Remove(name)
		}
	}
	return err
}

func (s *sealedFS) confine(dir string) FS {
	confined := *s
	confined.fsys = Confine(s.fsys, dir)
	return &confined
}

func (s *sealedFS) lock(name string) (io.Closer, error) { return Lock(s.fsys, s.path(name)) }

func (s *sealedFS) touch(name string, _ time.Time) error { return Touch(s.fsys, s.path(name)) }

func (s *sealedFS) lastUsed(name string) (time.Time, bool) { return LastUsed(s.fsys, s.path(name)) }

func (s *sealedFS) freeSpace(dir string) (int64, bool) { return FreeSpace(s.fsys, dir) }

func (s *sealedFS) checkPrivate(dir string) error { return CheckPrivate(s.fsys, dir) }

func (s *sealedFS) isLink(dir string) bool { return CheckNoLink(s.fsys, dir) != nil }

// Foreign counts the files directly in dir that fsys ignores because of its key or because it
// has none: files that are not sealed with the key of a Sealed fsys, and sealed files
// otherwise. A directory that does not exist has none.
func Foreign(fsys FS, dir string) (files int, err error) {
	s, sealed := fsys.(*sealedFS)
	if sealed {
		fsys = s.fsys
	}
	list, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, info := range list {
		if info.IsDir || info.Size == 0 { // locks are empty
			continue
		}
		own := !IsSealedName(info.Name)
		if sealed {
			_, own = s.names.open(info.Name)
		}
		if !own {
			files++
		}
	}
	return files, err
}
