package modelfile

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/digest"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// CacheOptions configure the cache of imported models.
type CacheOptions struct {
	FS    vfs.FS // of the cache
	Dir   string
	Limit int64 // bytes of packs in the cache; 0 = the default of package pack
	// Hashes remembers the hashes of the model's files; see Files.
	Hashes *digest.Memo
	// Import plans the pack of a model that is not in the cache.
	Import func(*Files) (Importer, error)
	// ImportAll also imports models that load no faster from a pack, because packs are
	// streamed without conversion.
	ImportAll bool
	// Notify, which may be nil, receives the reason why a model is used without a pack.
	Notify func(error)
}

// Importer is a planned pack.
type Importer interface {
	// Bytes returns the size of the pack.
	Bytes() (int64, error)
	// Write writes the pack. If it fails, no file is left.
	Write(ctx context.Context, fsys vfs.FS, path string) error
}

// OpenCached opens the pack of a model from a cache. If the cache has none, it imports the
// model. It opens the model itself if a pack is of no use, because no tensor has tiles, or
// if the import fails. It returns an error only if the model is malformed or ctx ends.
func OpenCached(ctx context.Context, fsys vfs.FS, path string, o CacheOptions) (*Files, error) {
	if IsPack(fsys, path) || isForeign(fsys, path) {
		return Open(fsys, path)
	}
	c := &cacheUse{CacheOptions: o, fsys: fsys, path: path}
	if err := c.checkUnhashed(); err != nil {
		return nil, err
	}
	f, err := c.open(ctx)
	if err == nil {
		return f, nil
	}
	if ctx.Err() != nil || errors.Is(err, vfs.ErrMemory) {
		return nil, err
	}
	if f, err = Open(fsys, path); err != nil || f.packed != nil || !f.Quantized() && !o.ImportAll {
		return f, err
	}
	if c.pack == "" {
		c.notify(c.failed)
		return f, nil
	}
	if err := c.importModel(ctx, f); err != nil {
		if ctx.Err() != nil {
			return nil, errors.Join(err, f.Close())
		}
		c.notify(err)
		return f, nil
	}
	packed, err := c.open(ctx)
	if err != nil {
		c.notify(err)
		return f, nil
	}
	packed.warnings = f.warnings
	_ = f.Close() // it was only read, and an error would lose the open pack
	return packed, nil
}

// HasCached reports whether a cache has the pack of a model. It changes nothing. Without any pack in the cache it does
// not hash the model.
func HasCached(ctx context.Context, fsys vfs.FS, path string, o CacheOptions) (bool, error) {
	packs, err := o.FS.ReadDir(o.Dir)
	if err != nil || !slices.ContainsFunc(packs, func(e vfs.Info) bool { return strings.HasSuffix(e.Name, pack.Suffix) }) {
		return false, err
	}
	content, err := (&Files{Path: path, FS: fsys, Hashes: o.Hashes}).Content(ctx)
	if err != nil {
		return false, err
	}
	suffix := pack.NameSuffix(content.Fingerprint)
	return slices.ContainsFunc(packs, func(e vfs.Info) bool { return !e.IsDir && strings.HasSuffix(e.Name, suffix) }), nil
}

// isForeign reports whether path is a file that does not begin like a GGUF file. Its content is
// not hashed before it is refused.
func isForeign(fsys vfs.FS, path string) bool {
	begins, err := vfs.BeginsWith(fsys, path, gguf.Magic)
	return err == nil && !begins // path may be a directory, and Open reports other errors
}

// cacheUse is the use of a cache for one model.
type cacheUse struct {
	CacheOptions
	fsys vfs.FS
	path string

	cache  *pack.Cache
	pack   string // path of the model's pack; "": no cache is usable
	failed error  // the reason
	source Content
}

func (c *cacheUse) notify(err error) {
	if c.Notify != nil {
		c.Notify(err)
	}
}

// open opens the model's pack in the cache. It removes a pack that is malformed or was made
// from other files, so that the next import replaces it.
func (c *cacheUse) open(ctx context.Context) (*Files, error) {
	if c.pack == "" {
		if c.failed = c.find(ctx); c.failed != nil {
			return nil, c.failed
		}
	}
	f := &Files{Path: c.path, FS: vfs.Metered(c.FS, vfs.MeterOf(c.fsys)), Hashes: c.Hashes}
	err := f.countHeaders(f.FS, func() error { return f.openPack(c.pack) })
	if err == nil {
		err = c.checkSource(f.packed)
	}
	if err != nil {
		err = errors.Join(err, f.Close())
		if errors.Is(err, store.ErrFormat) || errors.Is(err, store.ErrUnsupported) {
			err = errors.Join(err, c.discard())
		}
		return nil, err
	}
	f.cached = c
	if err := c.cache.Use(c.pack, c.path); err != nil {
		c.notify(err)
	}
	return f, nil
}

// checkSource returns an error if a pack was not made from the model: the name of a pack in
// the cache proves nothing, because files can be renamed and copied.
func (c *cacheUse) checkSource(p *pack.File) error {
	if p.About().Fingerprint == c.source.Fingerprint {
		return nil
	}
	return &store.FormatError{
		Path: c.pack, Off: store.NoOffset, Field: "fingerprint", Reason: "the pack was made from another model: " + p.About().Source,
		Kind: store.ErrFormat,
	}
}

// checkUnhashed opens a model of which some file must still be hashed, and closes it again: the
// hash of a large file takes longer than the refusal of a malformed one should.
func (c *cacheUse) checkUnhashed() error {
	source := &Files{Path: c.path, FS: c.fsys}
	if paths, err := source.SourceFiles(); err == nil && c.Hashes.Knows(c.fsys, paths) {
		return nil
	}
	f, err := Open(c.fsys, c.path)
	if err != nil {
		return err
	}
	return f.Close()
}

// find opens the cache and determines the path of the model's pack.
func (c *cacheUse) find(ctx context.Context) (err error) {
	if c.cache, err = pack.OpenCache(c.FS, c.Dir, c.Limit); err != nil {
		return err
	}
	source := &Files{Path: c.path, FS: c.fsys, Hashes: c.Hashes}
	if c.source, err = source.Content(ctx); err != nil {
		return err
	}
	_, name := vfs.Split(c.path)
	c.pack, err = c.cache.Path(name, c.source.Fingerprint)
	return err
}

// importModel imports f into the cache.
func (c *cacheUse) importModel(ctx context.Context, f *Files) error {
	if err := f.compareStamps(c.source.stamps); err != nil {
		return err
	}
	f.content = &c.source
	im, err := c.Import(f)
	if err != nil {
		return err
	}
	need, err := im.Bytes()
	if err != nil {
		return err
	}
	c.removeSampled(f)
	if err := c.cache.MakeRoom(need); err != nil {
		return err
	}
	return im.Write(ctx, c.FS, c.pack)
}

// removeSampled removes the pack that an older program made of the model. No program will
// use it again: its fingerprint does not prove that it has the model's weights.
func (c *cacheUse) removeSampled(f *Files) {
	sampled, err := f.SampledOrigin()()
	if err != nil {
		return
	}
	_, source := vfs.Split(c.path)
	_, name := vfs.Split(c.cache.SampledPath(source, sampled))
	_ = c.cache.Remove(name) // most models have none
}

// discard removes the model's pack.
func (c *cacheUse) discard() error {
	_, name := vfs.Split(c.pack)
	return c.cache.Remove(name)
}

// DiscardCached removes the damaged pack that f was opened from. ok is false if f was not
// opened from a cache.
func (f *Files) DiscardCached() (ok bool, err error) {
	if f.cached == nil {
		return false, nil
	}
	return true, f.cached.discard()
}

// Cached reports whether f was opened from a pack in a cache.
func (f *Files) Cached() bool { return f.cached != nil }

// OpenSource opens the model's own files beside its pack in the cache, for their weights alone; f is
// Cached. meter counts the memory of their headers.
func (f *Files) OpenSource(meter vfs.Meter) (*Files, error) {
	return open(&Files{Path: f.cached.path, FS: vfs.Metered(f.cached.fsys, meter), tensorsOnly: true})
}

// Bounds of the memory of OpenSource beside its tensors: what headers hold for each of them, and
// other keys with the steps in which memory is reserved.
const (
	sourcePerTensor = 2 << 10
	sourceHeaders   = 512 << 10
)

// MostTensors bounds the number of the model's tensors from the description of the network, so that
// it is the same for a model and its pack. Experts count one by one.
func MostTensors(spec *arch.Spec) (n int64) {
	n = otherTensors
	for i := range spec.Layers {
		if n += layerTensors; spec.Layers[i].Experts {
			n += 3 * int64(spec.Experts)
			if spec.ExpertBias {
				n += 3 * int64(spec.Experts)
			}
		}
	}
	return n
}

// Bounds of the tensors of a layer besides experts, and outside all layers.
const layerTensors, otherTensors = 20, 8

// headerPerTensor bounds what a reader holds for a tensor: its place and its part of an index.
// headerSteps is for the steps in which readers reserve memory.
const (
	headerPerTensor = 1536
	headerSteps     = 512 << 10
)

// HeaderMemory is what the headers of the model's files or of its pack hold, so that both count the
// same: the metadata, and a bound for the tensors.
func (f *Files) HeaderMemory(spec *arch.Spec) int64 {
	n := headerSteps + headerPerTensor*MostTensors(spec)
	if f.meta != nil {
		n += f.meta.Memory()
	}
	return n
}

// SourceMemory bounds what OpenSource reserves, for the files or the pack of the model.
func (f *Files) SourceMemory(spec *arch.Spec) int64 {
	n := MostTensors(spec)
	if f.meta != nil { // GGUF has the experts of a layer in one tensor
		n = otherTensors + layerTensors*int64(len(spec.Layers))
	}
	return sourceHeaders + sourcePerTensor*n
}
