package modelfile

import (
	"crypto/sha256"

	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// Identity identifies a model in persisted KV: models with different tokens, keys or values
// have different identities. For a pack it covers every byte, for other files the parts
// that pack.FingerprintOf reads.
func (f *Files) Identity() (id [sha256.Size]byte, err error) {
	if f.packed != nil {
		return f.packed.Identity(), nil
	}
	about, err := f.About("")
	return about.Fingerprint, err
}

// Origin identifies a model in persisted tokens. It is the same for a model's files and all
// packs made from them.
func (f *Files) Origin() (id [sha256.Size]byte, err error) {
	about, err := f.About("")
	return about.Fingerprint, err
}

// AdapterIdentity is Identity for the directory of an adapter.
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
