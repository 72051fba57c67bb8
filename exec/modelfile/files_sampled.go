package modelfile

import (
	"crypto/sha256"
	"strings"

	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// SampledOrigin returns a function that computes Origin as older programs did, from the names
// of the files and samples of their content. It finds the model of a session's text, but
// proves nothing about weights, keys and values. The function does not keep f in memory.
func (f *Files) SampledOrigin() func() ([sha256.Size]byte, error) {
	source := &Files{Path: f.Path, FS: f.FS}
	switch {
	case f.cached != nil:
		source.FS = f.cached.fsys
	case f.packed != nil:
		id := f.packed.About().Fingerprint
		return func() ([sha256.Size]byte, error) { return id, nil }
	}
	return func() (id [sha256.Size]byte, err error) {
		paths, err := source.sampledFiles()
		if err != nil {
			return id, err
		}
		return pack.SampledFingerprint(source.FS, paths)
	}
}

// sampledFiles lists the files that a sampled fingerprint covers: all configuration files in
// the directory of a safetensors model, and all its weights.
func (f *Files) sampledFiles() ([]string, error) {
	path, kind, err := f.locate()
	if err != nil {
		return nil, err
	}
	if kind != kindSafetensors {
		return f.parts(path)
	}
	return f.list(f.dir, func(name string) bool {
		return strings.HasSuffix(name, ".safetensors") || strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".jinja")
	})
}

// list returns the paths of the files in a directory that belong to the model.
func (f *Files) list(dir string, belongs func(name string) bool) (paths []string, err error) {
	entries, err := f.FS.ReadDir(dir)
	for _, e := range entries {
		if !e.IsDir && belongs(e.Name) {
			paths = append(paths, vfs.Join(dir, e.Name))
		}
	}
	return paths, err
}
