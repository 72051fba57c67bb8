package llmrun

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/build"
	"github.com/llmrun/llmrun/internal/ended"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// BundleOptions configure [Bundle].
type BundleOptions struct {
	// MostBytes is the largest file that the system of the program runs; 0 = any. A larger one is refused before it is
	// written.
	MostBytes int64
	// Notify, if set, receives messages for the user, one sentence each.
	Notify func(string)
	// Progress, if set, is called while a pack is verified, and then while the file is written. Calls do not overlap.
	Progress func(Progress)
}

// Bundle writes a copy of an executable with the model at path behind it, as a pack. The file opens like any other
// model, so that a program can open its own file: weights are read from there, as from a pack. A model that program
// carries is not copied. An existing file is replaced. The file is written completely or not at all, also if ctx
// is cancelled.
func Bundle(ctx context.Context, path, program, to string, opts BundleOptions) (done Imported, err error) {
	defer ended.Say(ctx, &err)
	p, err := pack.OpenProgram(vfs.OS(), program)
	if err != nil {
		return done, err
	}
	p.MostBytes = opts.MostBytes
	f, err := modelfile.Open(vfs.OS(), path)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for _, name := range f.Source.Files() {
		if vfs.SamePath(name, to) {
			return done, fmt.Errorf("%w: %s is the model itself; name another file", ErrOptions, to)
		}
	}
	reportNotices(f, opts.Notify)
	if packed := f.Packed(); packed != nil {
		err = bundlePack(ctx, packed, p, to, opts)
	} else {
		err = weights.Import(ctx, f, vfs.OS(), to, weights.ImportOptions{Made: build.Name(), Progress: progressFunc(opts.Progress), Program: p})
	}
	if err != nil {
		return done, err
	}
	info, err := vfs.OS().Stat(to)
	if err != nil {
		return done, err
	}
	written, err := pack.Open(vfs.OS(), to)
	if err != nil {
		return done, err
	}
	return Imported{Path: to, Bytes: info.Size, SourceBytes: written.About().SourceBytes, PlaneBytes: written.PlaneBytes()}, written.Close()
}

// bundlePack copies a pack behind a program. It verifies what it copies, so that damage is not handed on.
func bundlePack(ctx context.Context, packed *pack.File, p *pack.Program, to string, opts BundleOptions) error {
	dir, _ := vfs.Split(to)
	need := p.Bytes() + packed.Size()
	if err := errors.Join(p.Check(need), pack.CheckRoom(vfs.OS(), dir, need)); err != nil {
		return err
	}
	if err := packed.Verify(ctx, progressFunc(opts.Progress)); err != nil {
		return err
	}
	return packed.CopyBehind(ctx, vfs.OS(), to, p, progressFunc(opts.Progress))
}

// HasBundle reports whether [Bundle] has put a model behind the executable at path. The model may be damaged since.
func HasBundle(path string) bool { return pack.IsBehindProgram(vfs.OS(), path) }
