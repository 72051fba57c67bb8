package llmrun

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/build"
	"github.com/llmrun/llmrun/store/digest"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// keepAdapters decides whether a pack of the model can have the adapters beside its weights.
func (o *Options) keepAdapters(f *modelfile.Files) error {
	if !o.keepsBeside() {
		return nil
	}
	matrices, err := weights.AllMatrices(f)
	o.noPack = err == nil && !f.PackKeepsBeside(matrices)
	return err
}

// open opens the model's files, or its pack in the cache.
func (o *Options) open(ctx context.Context, path string) (*modelfile.Files, error) {
	if o.keepsBeside() && o.mayCache() {
		f, err := o.openChanged(path)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(o.keepAdapters(f), f.Close()); err != nil {
			return nil, err
		}
	}
	if !o.mayCache() {
		return o.openDirect(path)
	}
	return o.openCached(ctx, path, false)
}

// openDirect opens the model's own files.
func (o *Options) openDirect(path string) (*modelfile.Files, error) {
	f, err := modelfile.Open(o.fsys(), path)
	if err == nil {
		f.Hashes = o.hashes()
	}
	return f, err
}

// hashes returns the memory of file hashes: the cache directory, or the process without one.
func (o *Options) hashes() *digest.Memo {
	dir := o.Cache.Dir
	if dir == "" {
		dir = o.sessionDir()
	}
	return digest.NewMemo(vfs.OSOwn(), dir)
}

// RememberHash tells Open the SHA-256 of a model's file that the caller has just written, such as a download that was
// compared with a published hash, so that the first use does not read the file for it. dir is [CacheOptions].Dir. It
// sets the file's time of modification back by a minute, by which Open recognizes later changes.
func RememberHash(dir, path string, sum [sha256.Size]byte, size int64) error {
	return digest.NewMemo(vfs.OSOwn(), dir).Written(vfs.OS(), path, sum, size)
}

// mayCache reports whether the options permit a pack from the cache.
func (o *Options) mayCache() bool {
	return !o.usesDevice() && o.Cache.Dir != "" && !o.noPack && !o.Exact && !o.merges() && o.Quantize == "" && o.Lab.W8A8 == nil
}

// openCached opens the model's pack in the cache, and imports the model if a pack loads faster,
// or always. It opens the model's own files if there is no pack.
func (o *Options) openCached(ctx context.Context, path string, always bool) (*modelfile.Files, error) {
	var refused error
	imports := false
	importer := weights.ImportWith(weights.ImportOptions{Made: build.Name(), Progress: progressFunc(o.Cache.ImportProgress)})
	f, err := modelfile.OpenCached(ctx, o.fsys(), path, modelfile.CacheOptions{
		Hashes: o.hashes(), FS: o.cacheFS(), Dir: o.Cache.Dir, Limit: packLimit(SessionDir{o.Cache.Dir, o.Cache.KeyFile}, o.Cache.Size), ImportAll: always,
		Import: func(f *modelfile.Files) (modelfile.Importer, error) {
			if refused = o.admitImport(ctx, f); refused != nil {
				return nil, refused
			}
			imports = true
			return importer(f)
		},
		Notify: func(err error) {
			if refused != nil {
				return // it is returned
			}
			o.refuseImport(err)
		},
	})
	if err != nil {
		return nil, err
	}
	if refused != nil {
		return nil, errors.Join(refused, f.Close())
	}
	if p := f.Packed(); o.damaged != nil && p != nil && !p.SameWeights(o.damaged) {
		_, _ = f.DiscardCached() // what cannot be removed is not used either
		return nil, errors.Join(errOtherWeights(path), f.Close())
	}
	f.Hashes = o.hashes()
	if p := f.Packed(); imports && p != nil && o.Cache.Imported != nil {
		o.Cache.Imported(Imported{Path: p.Files()[0], Bytes: p.Size(), SourceBytes: p.About().SourceBytes, PlaneBytes: p.PlaneBytes()})
	}
	return f, nil
}

// refuseImport notes why the model runs without a pack.
func (o *Options) refuseImport(err error) {
	o.importRefused, o.importLock = true, vfs.HeldLock(err)
	if o.Notify != nil && !(o.importLock != "" && o.awaitsImport) {
		o.Notify(fmt.Sprintf("the model is opened without a pack: %v", err))
	}
}

// planImport decides again about a model that open would import first, if the cache has no room for its pack: open
// then uses the model's own files, and so does the plan.
func (o *Options) planImport(ctx context.Context, f *modelfile.Files, perTensor *exec.W8A8, a admission) (admission, error) {
	if f.Packed() != nil || !o.mayCache() || !f.Quantized() && !a.imports {
		return a, nil
	}
	refused, err := o.importRoom(ctx, f)
	if refused == nil || err != nil {
		return a, err
	}
	o.refuseImport(refused)
	return o.decide(ctx, f, perTensor, nil)
}

// importRoom returns why the cache has no room for the model's pack, nil if it has, or if the pack is there.
func (o *Options) importRoom(ctx context.Context, f *modelfile.Files) (refused, err error) {
	im, err := weights.ImportWith(weights.ImportOptions{})(f)
	if err != nil {
		return nil, err
	}
	need, err := im.Bytes()
	if err != nil {
		return nil, err
	}
	at := SessionDir{o.Cache.Dir, o.Cache.KeyFile}
	if refused = pack.CheckCache(o.cacheFS(), o.Cache.Dir, packLimit(at, o.Cache.Size), need); !errors.Is(refused, pack.ErrNoRoom) {
		return nil, nil // opening the model reports other errors
	}
	has, err := modelfile.HasCached(ctx, o.fsys(), f.Path, modelfile.CacheOptions{Hashes: o.hashes(), FS: o.cacheFS(), Dir: o.Cache.Dir})
	if has || err != nil {
		return nil, err
	}
	return refused, nil
}

// admitImport refuses a budget in which the model's pack would not run, and a prompt that no context of
// it holds, before the model is imported. Opening the model reports other errors.
func (o *Options) admitImport(ctx context.Context, f *modelfile.Files) error {
	if err := o.checkNested(f); err != nil {
		return err
	}
	err := o.changeWeights(f)
	if err == nil {
		imported := *o
		imported.importRefused = false
		_, err = imported.admit(ctx, f, nil)
	}
	if !errors.Is(err, ErrBudget) && !errors.Is(err, ErrContextFull) {
		err = nil
	}
	return err
}
