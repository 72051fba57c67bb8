package modelfile

import (
	"context"
	"errors"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// CacheOptions configure the cache of imported models.
type CacheOptions struct {
	FS    vfs.FS // of the cache
	Dir   string
	Limit int64 // bytes of packs in the cache; 0 = the default of package pack
	// Import plans the pack of a model that is not in the cache.
	Import func(*Files) (Importer, error)
	// ImportAll also imports models that load no faster from a pack, because only packs can
	// be streamed.
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
	if IsPack(fsys, path) {
		return Open(fsys, path)
	}
	c := &cacheUse{CacheOptions: o, fsys: fsys, path: path}
	f, err := c.open()
	if err == nil {
		return f, nil
	}
	if f, err = Open(fsys, path); err != nil || f.packed != nil || !f.Quantized() && !o.ImportAll {
		return f, err
	}
	if c.cache == nil {
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
	packed, err := c.open()
	if err != nil {
		c.notify(err)
		return f, nil
	}
	packed.warnings = f.warnings
	return packed, f.Close()
}

// cacheUse is the use of a cache for one model.
type cacheUse struct {
	CacheOptions
	fsys vfs.FS
	path string

	cache  *pack.Cache // nil: no cache is usable
	failed error       // the reason
	pack   string      // path of the model's pack
	source pack.Fingerprint
}

func (c *cacheUse) notify(err error) {
	if c.Notify != nil {
		c.Notify(err)
	}
}

// open opens the model's pack in the cache. It removes a pack that is malformed or was made
// from other files, so that the next import replaces it.
func (c *cacheUse) open() (*Files, error) {
	if c.pack == "" {
		if err := c.find(); err != nil {
			return nil, err
		}
	}
	f := &Files{Path: c.path, FS: c.FS}
	err := f.openPack(c.pack)
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
	if p.About().Fingerprint == c.source {
		return nil
	}
	return &store.FormatError{
		Path: c.pack, Off: store.NoOffset, Field: "fingerprint", Reason: "the pack was made from another model: " + p.About().Source,
		Kind: store.ErrFormat,
	}
}

// find opens the cache and determines the path of the model's pack.
func (c *cacheUse) find() error {
	source := &Files{Path: c.path, FS: c.fsys}
	about, err := source.About("")
	if err == nil {
		c.cache, err = pack.OpenCache(c.FS, c.Dir, c.Limit)
	}
	if err != nil {
		c.cache, c.failed = nil, err
		return err
	}
	c.pack, c.source = c.cache.Path(about.Source, about.Fingerprint), about.Fingerprint
	return nil
}

// importModel imports f into the cache.
func (c *cacheUse) importModel(ctx context.Context, f *Files) error {
	im, err := c.Import(f)
	if err != nil {
		return err
	}
	need, err := im.Bytes()
	if err != nil {
		return err
	}
	if err := c.cache.MakeRoom(need); err != nil {
		return err
	}
	return im.Write(ctx, c.FS, c.pack)
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
