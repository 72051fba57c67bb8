package llmrun

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/store/vfs"
)

// SessionDir is a directory of saved sessions and cached prefixes (see [CacheOptions].KVDir).
// Its methods do what the functions of the same purpose do for a directory without a key.
type SessionDir struct {
	Path    string
	KeyFile string // see [CacheOptions].KeyFile; "" for what is not encrypted
}

// sealKey is the key of encrypted keys, values and sessions.
type sealKey [vfs.SealKeyBytes]byte

// readKeyFile reads the key of a directory; nil without a key file. A key that lies in the
// directory is refused: a copy of the directory would contain it.
func readKeyFile(name string, dirs ...string) (*sealKey, error) {
	if name == "" {
		return nil, nil
	}
	for _, dir := range dirs {
		if dir != "" && isBelow(name, dir) {
			return nil, fmt.Errorf("%w: Cache.KeyFile: %s lies in the directory %s that it encrypts; put it elsewhere", ErrOptions, name, dir)
		}
	}
	key, err := vfs.ReadKeyFile(name)
	if err != nil {
		return nil, fmt.Errorf("%w: Cache.KeyFile: %w", ErrOptions, err)
	}
	return (*sealKey)(&key), nil
}

// isBelow reports whether a file is in a directory or below it.
func isBelow(name, dir string) bool {
	file, err := filepath.Abs(name)
	if err != nil {
		return false
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return false
	}
	path, err := filepath.Rel(dir, file)
	return err == nil && path != ".." && !strings.HasPrefix(path, ".."+string(filepath.Separator))
}

// seal returns fsys encrypted with the key, or fsys without one.
func (key *sealKey) seal(fsys vfs.FS) vfs.FS {
	if key == nil {
		return fsys
	}
	return vfs.Sealed(fsys, *key)
}

// readKey reads Cache.KeyFile.
func (o *Options) readKey() (err error) {
	o.kvKey, err = readKeyFile(o.Cache.KeyFile, o.Cache.Dir, o.Cache.KVDir)
	return err
}

// kvFS returns the file system of sessions, keys and values, always the same one: its files
// share their buffers.
func (o *Options) kvFS() vfs.FS {
	if o.kvFiles == nil {
		o.kvFiles = o.kvKey.seal(o.cacheFS())
	}
	return o.kvFiles
}

// sealedHeap returns the Go heap that encryption takes.
func (o *Options) sealedHeap() int64 {
	if o.kvKey == nil || o.sessionDir() == "" {
		return 0
	}
	return vfs.SealedHeap
}

// open opens the directory with its key.
func (at SessionDir) open() (*segment.Dir, error) {
	key, err := readKeyFile(at.KeyFile, at.Path)
	if err != nil {
		return nil, err
	}
	return segment.OpenDir(key.seal(vfs.OSOwn()), at.Path, 0)
}

// Unreadable describes the files of the directory that are ignored: those that were not written
// with the key file or, without one, encrypted ones. It is "" if there are none.
func (at SessionDir) Unreadable() (string, error) {
	d, err := at.open()
	if err != nil {
		return "", err
	}
	defer d.Close()
	return foreignFiles(d, at.Path, at.KeyFile != "")
}

// foreignFiles describes the files that a directory ignores.
func foreignFiles(d *segment.Dir, dir string, keyed bool) (string, error) {
	segments, sessions, err := d.Foreign()
	if segments+sessions == 0 || err != nil {
		return "", err
	}
	reason := "are encrypted and need their key file"
	if keyed {
		reason = "are not encrypted, or with another key"
	}
	return fmt.Sprintf("%s has files that %s (sessions: %d, keys and values: %d): they are not used and stay", dir, reason, sessions, segments), nil
}

// foreignSessions returns what the user is told about a session that the store does not have, if
// there are sessions that it ignores: the key file may be the wrong one. Their names are
// encrypted, so nothing tells whether one of them has this name. It returns "" if there are
// none.
func (store *sessionStore) foreignSessions(name string) (string, error) {
	_, sessions, err := store.dir.Foreign()
	if sessions == 0 || err != nil {
		return "", err
	}
	text, err := foreignFiles(store.dir, store.path, store.keyed)
	return fmt.Sprintf("there is no session %s yet, or it needs another key file: %s", name, text), err
}
