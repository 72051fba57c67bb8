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

// PackSuffix is how names of packs end: models in the form in which they load
// fastest, see [Import].
const PackSuffix = pack.Suffix

// ImportOptions are the choices for one import.
type ImportOptions struct {
	// Replace deletes the files of the source that hold weights, once the pack
	// has been written and read back.
	Replace bool
	// Quantize and Adapters change the weights, as in [Options]. Without them
	// an import loses nothing.
	Quantize string
	Adapters []string
	// Calibrate is a text of the kind that the model will be used for. It is read
	// once with the model as it is, and where Quantize rounds to 4 bits, errors in
	// weights of large inputs then count more. "" counts all errors alike.
	Calibrate string
	// CalibrateProgress, if set, is called with the tokens that were read of it.
	CalibrateProgress func(Progress)
	// Notify, if set, is told in a sentence what is not as the owner may expect.
	Notify func(string)
	// Progress, if set, is called while the pack is written and, with Replace,
	// again while it is read back. Calls do not overlap.
	Progress func(Progress)
}

// Imported says what an import did.
type Imported struct {
	Path        string `json:"path"`         // of the pack
	Bytes       int64  `json:"bytes"`        // of the pack
	SourceBytes int64  `json:"source_bytes"` // of the model's files
	// Removed are the files of the source that are gone, Freed is their bytes.
	Removed []string `json:"removed,omitempty"`
	Freed   int64    `json:"freed,omitempty"`
}

// Import writes the model at path as a pack: one file in which the weights lie
// as they will in memory, with checksums, the tokenizer and all that describes
// the model. It opens like any model. to has to end in [PackSuffix]; a file that
// is there is replaced. The pack is there completely or not at all, also when
// ctx is cancelled.
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

// checkImport refuses imports that would do harm.
func checkImport(f *modelfile.Files, to string, opts ImportOptions) error {
	switch {
	case !strings.HasSuffix(to, PackSuffix):
		return fmt.Errorf("%w: the name of a pack ends in %s, not as that of %s", ErrOptions, PackSuffix, to)
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
			return fmt.Errorf("%w: Replace: %s belongs to the cache of another program, which has to delete it", ErrOptions, name)
		}
	}
	return nil
}

// ImportCached imports the model at path into a directory, as an engine does on
// first use; see [Options.CacheDir]. A pack that is there already is kept. size
// bounds the directory as [Options.CacheSize] does.
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
	return done, fmt.Errorf("%w: %s has no quantized weights, which load no faster from a pack; name a file to import it all the same", ErrOptions, path)
}

// remove deletes the files that a pack has taken the place of.
func (d *Imported) remove(files []string) error {
	for _, name := range files {
		info, err := vfs.OS().Stat(name)
		if err != nil {
			return err
		}
		if err := vfs.OS().Remove(name); err != nil {
			return fmt.Errorf("the pack is complete, but its source stays: %w", err)
		}
		d.Removed, d.Freed = append(d.Removed, name), d.Freed+info.Size
	}
	return nil
}

// Verify reads a whole pack and compares every byte with its checksum. The error
// names the first place that is damaged.
func Verify(ctx context.Context, path string, progress func(Progress)) (err error) {
	p, err := pack.Open(vfs.OS(), path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	return p.Verify(ctx, progressFunc(progress))
}

// CachedPack is a pack that was imported into a directory on first use.
type CachedPack struct {
	Name   string    `json:"name"`
	Bytes  int64     `json:"bytes"`
	Source string    `json:"source,omitempty"` // path of the model when it was last used
	Used   time.Time `json:"used,omitzero"`
}

// CachedPacks lists the packs in a directory that was given as
// [Options.CacheDir], those first that were used last.
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

// RemoveCachedPack deletes a pack by the name that CachedPacks gives. The model
// itself stays, and is imported again when it is used.
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

// existingCache opens a cache, or returns nil where there is none yet.
func existingCache(dir string) (*pack.Cache, error) {
	if _, err := vfs.OS().Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return pack.OpenCache(vfs.OS(), dir, 0)
}

// open finds the model, in the cache if there is one that suits.
func (o *Options) open(ctx context.Context, path string) (*modelfile.Files, error) {
	if !o.mayCache() {
		return modelfile.Open(o.fsys(), path)
	}
	return o.openCached(ctx, path, false)
}

// mayCache reports whether the model may be used from a pack in the cache.
func (o *Options) mayCache() bool {
	return !o.usesDevice() && o.Cache.Dir != "" && !o.Exact && len(o.Adapters) == 0 && o.Quantize == "" && o.Lab.W8A8 == nil
}

// openPacked opens the model's pack in the cache, also of models that are not
// faster for it.
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
				o.Notify(fmt.Sprintf("the model is used as it is, without a pack: %v", err))
			}
		},
	})
}

// openUnpacked opens the model itself, after what a cache held of it turned out
// to be damaged while it was read.
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

// reportNotices passes on what the files have to say.
func reportNotices(f *modelfile.Files, notice func(string)) {
	if notice == nil {
		return
	}
	for _, text := range f.Warnings() {
		notice(text)
	}
}

// openMerged opens the model at path, with weights as they will be read.
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

// mergeAndQuantize changes weights as they will be read.
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

// progressFunc turns a reporter of this package into one of those below.
func progressFunc(report func(Progress)) func(done, total int64) {
	if report == nil {
		return nil
	}
	return func(done, total int64) { report(Progress{done, total}) }
}
