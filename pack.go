package llmrun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/build"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// PackSuffix is the file name suffix of packs; see [Import].
const PackSuffix = pack.Suffix

// ImportOptions configure an import.
type ImportOptions struct {
	// Replace deletes the source's weight files after the pack has been written and verified.
	Replace bool
	// Quantize and Adapters change the weights, as in [Options]. Without them the pack
	// contains the same weights as the source.
	Quantize string
	Adapters []string
	// Calibrate is a sample of the text that the model will process. If Quantize selects
	// 4-bit types, the import runs the original model over this text, and weights errors by
	// the magnitude of their inputs. "" gives all errors the same weight.
	Calibrate string
	// CalibrateProgress, if set, is called with the tokens of Calibrate that are processed.
	CalibrateProgress func(Progress)
	// Notify, if set, receives messages for the user, one sentence each.
	Notify func(string)
	// Progress, if set, is called while the pack is written and, with Replace, again while it
	// is verified. Calls do not overlap.
	Progress func(Progress)
}

// Imported reports the result of an import.
type Imported struct {
	Path        string `json:"path"`         // the pack
	Bytes       int64  `json:"bytes"`        // size of the pack
	SourceBytes int64  `json:"source_bytes"` // size of the model's files
	// Removed lists the deleted files of the source, and Freed is their size.
	Removed []string `json:"removed,omitempty"`
	Freed   int64    `json:"freed,omitempty"`
}

// Import writes the model at path as a pack: one file with the weights in the layout of the
// kernels, checksums, the tokenizer and all metadata. A pack opens like any other model. to
// must end in [PackSuffix]; an existing file is replaced. The pack is written completely or
// not at all, also if ctx is cancelled.
func Import(ctx context.Context, path, to string, opts ImportOptions) (done Imported, err error) {
	f, err := modelfile.Open(vfs.OS(), path)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := checkImport(f, to, opts); err != nil {
		return done, err
	}
	reportNotices(f, opts.Notify)
	if err := mergeAndQuantize(f, vfs.OS(), opts.Adapters, ""); err != nil {
		return done, err
	}
	if err := opts.quantize(ctx, f); err != nil {
		return done, err
	}
	if err := weights.Import(ctx, f, vfs.OS(), to, weights.ImportOptions{Made: build.Name(), Progress: progressFunc(opts.Progress)}); err != nil {
		return done, err
	}
	p, err := pack.Open(vfs.OS(), to)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	done = Imported{Path: to, Bytes: p.Size(), SourceBytes: p.About().SourceBytes}
	if !opts.Replace {
		return done, nil
	}
	if err := p.Verify(ctx, progressFunc(opts.Progress)); err != nil {
		return done, err
	}
	return done, done.remove(f.Source.Files())
}

// checkImport refuses imports whose output name is wrong or whose Replace would delete files
// that belong to others.
func checkImport(f *modelfile.Files, to string, opts ImportOptions) error {
	switch {
	case !strings.HasSuffix(to, PackSuffix):
		return fmt.Errorf("%w: the name of the pack is %s; it must end in %s", ErrOptions, to, PackSuffix)
	case !opts.Replace:
		return nil
	case f.Packed() != nil:
		return fmt.Errorf("%w: Replace: %s is a pack already", ErrOptions, f.Path)
	}
	for _, name := range f.Source.Files() {
		dir, _ := vfs.Split(name)
		above, _ := vfs.Split(dir)
		if _, base := vfs.Split(above); base != "snapshots" {
			continue
		}
		repo, _ := vfs.Split(above)
		if info, err := vfs.OS().Stat(vfs.Join(repo, "blobs")); err == nil && info.IsDir {
			return fmt.Errorf("%w: Replace: %s is in the cache of another program; delete it there", ErrOptions, name)
		}
	}
	return nil
}

// ImportCached imports the model at path into a cache directory, as Open does with
// [CacheOptions].Dir. It keeps an existing pack. size limits the directory as
// [CacheOptions].Size does.
func ImportCached(ctx context.Context, path, dir string, size int64, progress func(Progress)) (done Imported, err error) {
	var refused error
	f, err := modelfile.OpenCached(ctx, vfs.OS(), path, modelfile.CacheOptions{
		FS: vfs.OS(), Dir: dir, Limit: packLimit(dir, size),
		Import: weights.ImportWith(weights.ImportOptions{Made: build.Name(), Progress: progressFunc(progress)}),
		Notify: func(err error) { refused = errors.Join(refused, err) },
	})
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	p := f.Packed()
	switch {
	case p != nil:
		return Imported{Path: p.Files()[0], Bytes: p.Size(), SourceBytes: p.About().SourceBytes}, nil
	case refused != nil:
		return done, refused
	}
	return done, fmt.Errorf("%w: %s has no quantized weights, so a pack loads no faster; name an output file to import it anyway", ErrOptions, path)
}

// remove deletes the files that the pack replaces.
func (d *Imported) remove(files []string) error {
	for _, name := range files {
		info, err := vfs.OS().Stat(name)
		if err != nil {
			return err
		}
		if err := vfs.OS().Remove(name); err != nil {
			return fmt.Errorf("the pack is complete, but a source file could not be deleted: %w", err)
		}
		d.Removed, d.Freed = append(d.Removed, name), d.Freed+info.Size
	}
	return nil
}

// Verify reads a whole pack and compares all block checksums. The error names the first
// damaged place.
func Verify(ctx context.Context, path string, progress func(Progress)) (err error) {
	p, err := pack.Open(vfs.OS(), path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	return p.Verify(ctx, progressFunc(progress))
}

// CachedPack is a pack in a cache directory.
type CachedPack struct {
	Name   string    `json:"name"`
	Bytes  int64     `json:"bytes"`
	Source string    `json:"source,omitempty"` // path of the model at the last use
	Used   time.Time `json:"used,omitzero"`
}

// CachedPacks lists the packs in a cache directory (see [CacheOptions].Dir), the most
// recently used first.
func CachedPacks(dir string) ([]CachedPack, error) {
	c, err := existingCache(dir)
	if c == nil || err != nil {
		return nil, err
	}
	list, err := c.List()
	out := make([]CachedPack, len(list))
	for i, p := range list {
		out[i] = CachedPack(p)
	}
	return out, err
}

// RemoveCachedPack deletes a pack by the name that CachedPacks returns. The model itself is
// not deleted; Open imports it again at the next use.
func RemoveCachedPack(dir, name string) error {
	c, err := existingCache(dir)
	if err != nil {
		return err
	}
	if c == nil {
		return fmt.Errorf("%w: %s has no pack %q", fs.ErrNotExist, dir, name)
	}
	return c.Remove(name)
}

// existingCache opens a cache, or returns nil if the directory does not exist.
func existingCache(dir string) (*pack.Cache, error) {
	if _, err := vfs.OS().Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return pack.OpenCache(vfs.OS(), dir, 0)
}

// open opens the model's files, or its pack in the cache.
func (o *Options) open(ctx context.Context, path string) (*modelfile.Files, error) {
	if !o.mayCache() {
		return modelfile.Open(o.fsys(), path)
	}
	return o.openCached(ctx, path, false)
}

// mayCache reports whether the options permit a pack from the cache.
func (o *Options) mayCache() bool {
	return !o.usesDevice() && o.Cache.Dir != "" && !o.Exact && len(o.Adapters) == 0 && o.Quantize == "" && o.Lab.W8A8 == nil
}

// openPacked opens the model's pack in the cache, and imports the model if necessary, even if
// a pack loads no faster.
func (o *Options) openPacked(ctx context.Context, path string) (*modelfile.Files, error) {
	f, err := o.openCached(ctx, path, true)
	if err == nil && f.Packed() == nil {
		err = errors.Join(fmt.Errorf("%w: %s", errNeedsPack, path), f.Close())
	}
	return f, err
}

func (o *Options) openCached(ctx context.Context, path string, always bool) (*modelfile.Files, error) {
	return modelfile.OpenCached(ctx, o.fsys(), path, modelfile.CacheOptions{
		FS: o.Lab.Disk.throttle(vfs.OS()), Dir: o.Cache.Dir, Limit: packLimit(o.Cache.Dir, o.Cache.Size), ImportAll: always,
		Import: weights.ImportWith(weights.ImportOptions{Made: build.Name(), Progress: progressFunc(o.Cache.ImportProgress)}),
		Notify: func(err error) {
			if o.Notify != nil {
				o.Notify(fmt.Sprintf("the model is opened without a pack: %v", err))
			}
		},
	})
}

// openUnpacked opens the model's own files if loading its cached pack failed because the pack
// is damaged. It deletes the damaged pack.
func (o *Options) openUnpacked(f *modelfile.Files, damage error) (*modelfile.Files, bool) {
	if !errors.Is(damage, store.ErrFormat) {
		return nil, false
	}
	if discarded, _ := f.DiscardCached(); !discarded {
		return nil, false
	}
	direct, err := modelfile.Open(o.fsys(), f.Path)
	if err != nil {
		return nil, false
	}
	if o.Notify != nil {
		o.Notify(fmt.Sprintf("a pack was damaged and has been removed: %v", damage))
	}
	return direct, true
}

// discardDamagedPack removes the engine's pack from the cache if err reports that it is
// damaged, so that the model is imported again when it is next opened. It returns err.
func (e *Engine) discardDamagedPack(err error) error {
	var damage *store.FormatError
	if err == nil || e.files == nil || !errors.As(err, &damage) {
		return err
	}
	if p := e.files.Packed(); p == nil || damage.Path != p.Path() {
		return err
	}
	if discarded, _ := e.files.DiscardCached(); discarded {
		return fmt.Errorf("%w; the damaged pack was removed from the cache: open the model again", err)
	}
	return err
}

// reportNotices passes the notices about the model's files to the user.
func reportNotices(f *modelfile.Files, notice func(string)) {
	if notice == nil {
		return
	}
	for _, text := range f.Warnings() {
		notice(text)
	}
}

// openMerged opens the model at path, merges the adapters and quantizes the weights.
func openMerged(fsys vfs.FS, path string, adapters []string, mix string) (*modelfile.Files, error) {
	f, err := modelfile.Open(fsys, path)
	if err != nil {
		return nil, err
	}
	if err := mergeAndQuantize(f, fsys, adapters, mix); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// mergeAndQuantize merges adapters into the weights and quantizes them, as they are read.
func mergeAndQuantize(f *modelfile.Files, fsys vfs.FS, adapters []string, mix string) error {
	for _, dir := range adapters {
		if err := f.Merge(fsys, dir); err != nil {
			return err
		}
	}
	if mix == "" {
		return nil
	}
	return f.Quantize(mix, nil)
}

// progressFunc converts a callback of this package to one of the lower packages.
func progressFunc(report func(Progress)) func(done, total int64) {
	if report == nil {
		return nil
	}
	return func(done, total int64) { report(Progress{done, total}) }
}
