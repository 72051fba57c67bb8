package modelfile

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/digest"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// Content identifies the content of a model's files.
type Content struct {
	Fingerprint pack.Fingerprint
	Bytes       int64                // of all files
	stamps      map[string]vfs.Stamp // by path; without the files that have none
}

// Content hashes the model's files, or takes the hashes that f.Hashes remembers. It returns
// an error if the files are no longer those that were opened.
func (f *Files) Content(ctx context.Context) (Content, error) {
	if f.content != nil {
		return *f.content, nil
	}
	paths, err := f.SourceFiles()
	if err != nil {
		return Content{}, err
	}
	c, err := f.contentOf(ctx, f.FS, paths)
	if err == nil {
		err = f.compareStamps(c.stamps)
	}
	if err == nil {
		f.content = &c
	}
	return c, err
}

// contentOf hashes files.
func (f *Files) contentOf(ctx context.Context, fsys vfs.FS, paths []string) (c Content, err error) {
	c.stamps = map[string]vfs.Stamp{}
	var files []pack.SourceFile
	for _, path := range paths {
		d, err := f.Hashes.Of(ctx, fsys, path, nil)
		if err != nil {
			return c, err
		}
		files = append(files, pack.SourceFile{Role: role(path), Size: d.Size, Sum: d.Sum})
		c.Bytes += d.Size
		if d.Stamp != (vfs.Stamp{}) {
			c.stamps[path] = d.Stamp
		}
	}
	c.Fingerprint = pack.FingerprintOf(files)
	return c, nil
}

// role returns the role of a file in a model.
func role(path string) string {
	_, name := vfs.Split(path)
	switch {
	case strings.HasSuffix(name, indexSuffix):
		return indexSuffix
	case slices.Contains(hubAttachments, name):
		return name
	}
	return ""
}

// stampFiles records the stamps of the model's files before they are opened. If a file has
// none because it cannot be read, opening the model reports that; otherwise, what needs the
// stamps does.
func (f *Files) stampFiles() {
	paths, err := f.SourceFiles()
	if err != nil {
		return
	}
	f.stamps, f.stampErr = stampsOf(f.FS, paths)
	f.stamped = time.Now()
}

// stampsOf returns the stamps of files, and an error that names those that cannot be read.
func stampsOf(fsys vfs.FS, paths []string) (stamps map[string]vfs.Stamp, failed error) {
	w, stamps, failed := watch(fsys, paths)
	_ = w.Close() // nothing was written
	return stamps, failed
}

// watch is stampsOf, and returns the open files that have stamps.
func watch(fsys vfs.FS, paths []string) (w *Fresh, stamps map[string]vfs.Stamp, failed error) {
	w, stamps = &Fresh{}, map[string]vfs.Stamp{}
	for _, path := range paths {
		file, err := fsys.Open(path)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		s, ok, err := vfs.StampOf(file)
		if failed = errors.Join(failed, err); ok && err == nil {
			stamps[path] = s
			w.files, w.stamps = append(w.files, file), append(w.stamps, s)
			continue
		}
		_ = file.Close() // nothing was written
	}
	return w, stamps, failed
}

// checkUnchanged returns an error if one of the model's files was changed or replaced since
// it was opened.
func (f *Files) checkUnchanged() error {
	paths, err := f.SourceFiles()
	if err != nil || f.stamps == nil {
		return err
	}
	now, err := stampsOf(f.FS, paths)
	if err != nil {
		return err
	}
	return f.compareStamps(now)
}

// compareStamps returns an error if stamps are not those of the files when they were opened.
func (f *Files) compareStamps(now map[string]vfs.Stamp) error {
	if f.stamps == nil || maps.Equal(f.stamps, now) {
		return nil
	}
	if f.stampErr != nil {
		return f.stampErr
	}
	return &store.FormatError{
		Path: f.Path, Off: store.NoOffset, Reason: "the model's files were changed while it was opened",
		Hint: "open it again when they are complete", Kind: store.ErrChanged,
	}
}

// Identity identifies a model in persisted KV: models with different tokens, keys or values
// have different identities. A model and its pack in the cache have the same, under any name.
func (f *Files) Identity(ctx context.Context) (id [sha256.Size]byte, err error) {
	if f.packed != nil && f.cached == nil {
		c, err := f.contentOf(ctx, f.packFS, []string{f.Path})
		return c.Fingerprint, err
	}
	return f.Origin(ctx)
}

// IdentityLater returns a function that returns Identity, for callers who close f before they need it. The function does not keep
// f in memory.
func (f *Files) IdentityLater() func(ctx context.Context) ([sha256.Size]byte, error) {
	if f.cached != nil {
		id := f.packed.About().Fingerprint
		return func(context.Context) ([sha256.Size]byte, error) { return id, nil }
	}
	source, paths, failed := &Files{Path: f.Path, FS: f.FS, Hashes: f.Hashes, stamps: f.stamps, stampErr: f.stampErr}, []string{f.Path}, error(nil)
	if f.packed != nil {
		source.FS, source.stamps, source.stampErr = f.packFS, nil, nil
	} else {
		paths, failed = f.SourceFiles()
	}
	return func(ctx context.Context) (id [sha256.Size]byte, err error) {
		if failed != nil {
			return id, failed
		}
		c, err := source.contentOf(ctx, source.FS, paths)
		if err == nil {
			err = source.compareStamps(c.stamps)
		}
		return c.Fingerprint, err
	}
}

// Origin identifies a model in persisted tokens. It is the same for a model's files and all
// packs made from them.
func (f *Files) Origin(ctx context.Context) (id [sha256.Size]byte, err error) {
	about, err := f.About(ctx, "")
	return about.Fingerprint, err
}

// About returns the origin of a pack made from f.
func (f *Files) About(ctx context.Context, made string) (a pack.About, err error) {
	_, a.Source = vfs.Split(f.Path)
	a.CreatedBy = made
	if f.packed != nil {
		was := f.packed.About()
		a.Source, a.SourceBytes, a.Fingerprint = was.Source, was.SourceBytes, was.Fingerprint
		return a, nil
	}
	c, err := f.Content(ctx)
	a.Fingerprint, a.SourceBytes = c.Fingerprint, c.Bytes
	return a, err
}

// AboutImported is About after all tensors of f have been read. It returns an error if the
// files were changed meanwhile, because the fingerprint may then be that of other tensors.
func (f *Files) AboutImported(ctx context.Context, made string) (a pack.About, err error) {
	if a, err = f.About(ctx, made); err == nil && f.packed == nil {
		err = f.checkUnchanged()
	}
	return a, err
}

// AdapterIdentity is Identity for an adapter with its scale.
func AdapterIdentity(ctx context.Context, hashes *digest.Memo, fsys vfs.FS, name string) (id [sha256.Size]byte, err error) {
	dir, scale, err := SplitAdapterScale(name)
	if err != nil {
		return id, err
	}
	var files []pack.SourceFile
	paths := map[string]string{adapterConfig: vfs.Join(dir, adapterConfig), adapterWeights: vfs.Join(dir, adapterWeights)}
	if isGGUFAdapter(dir) {
		paths = map[string]string{"adapter.gguf": dir}
	}
	for role, path := range paths { // FingerprintOf sorts the files
		d, err := hashes.Of(ctx, fsys, path, nil)
		if err != nil {
			return id, err
		}
		files = append(files, pack.SourceFile{Role: role, Size: d.Size, Sum: d.Sum})
	}
	if scale != 1 {
		files = append(files, pack.SourceFile{Role: "scale", Size: int64(math.Float32bits(scale))})
	}
	return pack.FingerprintOf(files), nil
}

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
