package modelfile

import (
	"context"
	"errors"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// CacheOptions say where models are imported to when they are first used.
type CacheOptions struct {
	FS    vfs.FS // of the cache
	Dir   string
	Limit int64 // bytes of packs in the cache; 0 = the default of package pack
	// Import plans the pack of a model that the cache does not hold yet.
	Import func(*Files) (Importer, error)
	// ImportAll imports models that load no faster from a pack, too: only a pack can
	// be read piece by piece.
	ImportAll bool
	// Notify, which may be nil, is told why a model is used as it is.
	Notify func(error)
}

// Importer is a pack that has been planned and is not written yet.
type Importer interface {
	// Bytes returns the size of the pack.
	Bytes() (int64, error)
	// Write writes the pack, completely or not at all.
	Write(ctx context.Context, fsys vfs.FS, path string) error
}

// OpenCached opens the pack that a cache holds of a model. If there is none, the
// model is imported. Where that is of no use, because no weight has tiles, or
// not possible, the model itself is opened: only what is wrong with the model,
// and the end of ctx, is an error.
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

	cache  *pack.Cache // nil: there is none to use
	failed error       // why not
	pack   string      // where the model's pack belongs
}

func (c *cacheUse) notify(err error) {
	if c.Notify != nil {
		c.Notify(err)
	}
}

// open opens the model's pack in the cache. A pack that cannot be opened there
// is removed: it will be made again.
func (c *cacheUse) open() (*Files, error) {
	if c.pack == "" {
		if err := c.find(); err != nil {
			return nil, err
		}
	}
	f := &Files{Path: c.path, FS: c.FS}
	if err := f.openPack(c.pack); err != nil {
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

// find opens the cache and finds out where the model's pack belongs.
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
	c.pack = c.cache.Path(about.Source, about.Fingerprint)
	return nil
}

// importModel puts a pack of f into the cache.
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

// DiscardCached removes the pack in a cache that f was opened from: it turned
// out to be damaged. ok is false if f was not opened from one.
func (f *Files) DiscardCached() (ok bool, err error) {
	if f.cached == nil {
		return false, nil
	}
	return true, f.cached.discard()
}
