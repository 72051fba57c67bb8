package llmrun

import (
	"context"
	"errors"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/ended"
	"github.com/llmrun/llmrun/store/digest"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// Verify reads a whole pack and compares all block checksums. The error names the first
// damaged place.
func Verify(ctx context.Context, path string, progress func(Progress)) (err error) {
	defer ended.Say(ctx, &err)
	p, err := pack.Open(vfs.OS(), path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	return p.Verify(ctx, progressFunc(progress))
}

// VerifiedFile is a file of a model that was read whole.
type VerifiedFile struct {
	Path  string
	Bytes int64
	// SHA256 is the hash of the content in hexadecimal digits, as download pages print it. Known
	// reports that an earlier run had read the same file, with the same hash. A pack has
	// checksums instead.
	SHA256 string
	Known  bool
}

// VerifyModel reads all files of a model, or of all models in a directory. It verifies a pack
// like [Verify]. It hashes other files and compares each hash with the one that a cache directory
// (see [CacheOptions].Dir) remembers of the same file; dir may be "". The error is an ErrFormat if
// the content of a file has changed although its size and its time of modification have not.
// VerifyModel returns the files that are sound, also with an error. Progress begins anew with each
// model.
func VerifyModel(ctx context.Context, path, dir string, progress func(Progress)) (files []VerifiedFile, err error) {
	defer ended.Say(ctx, &err)
	models, err := modelfile.Models(vfs.OS(), path)
	if err != nil {
		return nil, err
	}
	for _, model := range models {
		sound, failed := verifyModel(ctx, model, dir, progress)
		files, err = append(files, sound...), errors.Join(err, failed)
		if ctx.Err() != nil {
			return files, ctx.Err()
		}
	}
	return files, err
}

// verifyModel is VerifyModel for one model.
func verifyModel(ctx context.Context, path, dir string, progress func(Progress)) (files []VerifiedFile, err error) {
	f, err := modelfile.Open(vfs.OS(), path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if p := f.Packed(); p != nil {
		if err := p.Verify(ctx, progressFunc(progress)); err != nil {
			return nil, err
		}
		return []VerifiedFile{{Path: path, Bytes: p.Size()}}, nil
	}
	paths, err := f.SourceFiles()
	if err != nil {
		return nil, err
	}
	meter, err := newMeter(paths, progress)
	if err != nil {
		return nil, err
	}
	hashes := digest.NewMemo(vfs.OSOwn(), dir)
	for _, path := range paths {
		d, known, failed := hashes.Verify(ctx, vfs.OS(), path, meter)
		if ctx.Err() != nil {
			return files, ctx.Err()
		}
		if failed == nil {
			files = append(files, VerifiedFile{path, d.Size, d.Sum.String(), known})
		}
		err = errors.Join(err, failed)
	}
	return files, err
}

// newMeter returns a function that adds up the bytes read of files.
func newMeter(paths []string, progress func(Progress)) (func(n int64), error) {
	var p Progress
	for _, path := range paths {
		info, err := vfs.OS().Stat(path)
		if err != nil {
			return nil, err
		}
		p.Total += info.Size
	}
	return func(n int64) {
		p.Done += n
		if progress != nil {
			progress(p)
		}
	}, nil
}
