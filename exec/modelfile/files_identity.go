package modelfile

import (
	"crypto/sha256"

	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// Identity tells models apart whose tokens, keys or values differ. Of a pack it
// covers every byte, of other files what pack.FingerprintOf reads.
func (f *Files) Identity() (id [sha256.Size]byte, err error) {
	if f.packed != nil {
		return f.packed.Identity(), nil
	}
	about, err := f.About("")
	return about.Fingerprint, err
}

// Origin tells models apart whose tokens differ: it is the same for a model's files
// and for all packs that are made from them.
func (f *Files) Origin() (id [sha256.Size]byte, err error) {
	about, err := f.About("")
	return about.Fingerprint, err
}

// AdapterIdentity is Identity for an adapter's directory.
func AdapterIdentity(fsys vfs.FS, dir string) (id [sha256.Size]byte, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return id, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir {
			files = append(files, vfs.Join(dir, e.Name))
		}
	}
	id, _, err = pack.FingerprintOf(fsys, files)
	return id, err
}
