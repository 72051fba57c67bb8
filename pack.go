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
	"github.com/llmrun/llmrun/internal/ended"
	"github.com/llmrun/llmrun/store/digest"
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
	// the magnitude of their inputs. "" gives all errors the same weight. Nested as a percentage measures
	// the planes of the matrices on it.
	Calibrate string
	// CalibrateProgress, if set, is called with the tokens of Calibrate that are processed.
	CalibrateProgress func(Progress)
	// Nested stores the matrices of layers and an output head in two planes where their types permit it: the high bits
	// of the codes with the scales, and the low bits. Open then needs memory for the high planes only, streams the
	// low ones, and guesses tokens with the high ones; see [DraftNested]. It is NestedNone, also "",
	// NestedThree, NestedMixed, or a percentage such as "75%": the part of the matrices that the high planes may take. The
	// import then runs the model over the beginning of Calibrate with one matrix at a time in each of its high planes,
	// and chooses those that change its predictions least. The pack stores what was measured.
	Nested string
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
	// PlaneBytes is the size of what the pack stores in two planes; see [ImportOptions].Nested.
	PlaneBytes int64 `json:"plane_bytes,omitempty"`
	// Removed lists the deleted files of the source, and Freed is their size.
	Removed []string `json:"removed,omitempty"`
	Freed   int64    `json:"freed,omitempty"`
}

// Import writes the model at path as a pack: one file with the weights in the layout of the
// kernels, checksums, the tokenizer and all metadata. A pack opens like any other model. to
// must end in [PackSuffix]; an existing file is replaced. The pack is written completely or
// not at all, also if ctx is cancelled.
func Import(ctx context.Context, path, to string, opts ImportOptions) (done Imported, err error) {
	defer ended.Say(ctx, &err)
	f, err := modelfile.Open(vfs.OS(), path)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := errors.Join(checkImport(f, to, opts), opts.checkPlanes(), checkAdapters(opts.Adapters), refuseNamed(opts.Adapters)); err != nil {
		return done, err
	}
	reportNotices(f, opts.Notify)
	if err := (&Options{Adapters: opts.Adapters}).changeWeights(f); err != nil {
		return done, err
	}
	if err := opts.quantize(ctx, f); err != nil {
		return done, err
	}
	planes, attached, err := opts.planes(ctx, f)
	if err != nil {
		return done, err
	}
	if err := weights.Import(ctx, f, vfs.OS(), to, weights.ImportOptions{Made: build.Name(), Progress: progressFunc(opts.Progress), Planes: planes, Attachments: attached}); err != nil {
		return done, explainNoPlanes(f.Path, err)
	}
	p, err := pack.Open(vfs.OS(), to)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	done = Imported{Path: to, Bytes: p.Size(), SourceBytes: p.About().SourceBytes, PlaneBytes: p.PlaneBytes()}
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
	defer ended.Say(ctx, &err)
	var refused error
	f, err := modelfile.OpenCached(ctx, vfs.OS(), path, modelfile.CacheOptions{
		FS: vfs.OSOwn(), Dir: dir, Limit: packLimit(SessionDir{Path: dir}, size), Hashes: digest.NewMemo(vfs.OSOwn(), dir),
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
	return pack.OpenCache(vfs.OSOwn(), dir, 0)
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

// openChanged opens the model at path and changes its weights.
func (o *Options) openChanged(path string) (*modelfile.Files, error) {
	f, err := modelfile.Open(o.fsys(), path)
	if err != nil {
		return nil, err
	}
	if err := o.changeWeights(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// changeWeights adds the adapters to the weights, or keeps them beside, and quantizes the weights,
// as they are read.
func (o *Options) changeWeights(f *modelfile.Files) error {
	if err := o.addAdapters(f); err != nil {
		return err
	}
	if o.Quantize == "" {
		return nil
	}
	return f.Quantize(o.Quantize, nil)
}

// progressFunc converts a callback of this package to one of the lower packages.
func progressFunc(report func(Progress)) func(done, total int64) {
	if report == nil {
		return nil
	}
	return func(done, total int64) { report(Progress{done, total}) }
}
