package llmrun

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/build"
	"github.com/llmrun/llmrun/internal/ended"
	"github.com/llmrun/llmrun/store/digest"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// A SteppedImport writes the pack of a model whose files arrive while it is written, such as a download, and are deleted
// behind it: the disk holds the model once. It can be interrupted and continued. The pack has the same bytes as that
// of [Import].
type SteppedImport struct {
	files *modelfile.Files
	steps *weights.SteppedImport
}

// ErrImportStep reports a file that does not begin with the step from which [SteppedImport.Write] was to go on.
var ErrImportStep = pack.ErrOtherStart

// PlanSteppedImport reads the headers of the model at path in fsys. Its files must implement [io.ReaderAt]. It returns an
// error for a model that only Import can import, because some tensor is computed from several ones of its files.
func PlanSteppedImport(fsys fs.FS, path string, notify func(string)) (*SteppedImport, error) {
	f, err := modelfile.Open(vfs.FromIOFS(fsys), path)
	if err != nil {
		return nil, err
	}
	s := &SteppedImport{files: f}
	if s.steps, err = weights.ImportInSteps(f, weights.ImportOptions{Made: build.Name()}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	reportNotices(f, notify)
	return s, nil
}

// Close closes the model's files.
func (s *SteppedImport) Close() error { return s.files.Close() }

// Bytes returns about the size of the pack.
func (s *SteppedImport) Bytes() (int64, error) { return s.steps.Bytes() }

// ID identifies the plan. Only an import with the same one can continue another.
func (s *SteppedImport) ID() [sha256.Size]byte { return s.steps.ID() }

// Reads calls yield, until it returns false, for all bytes of the model's files that the pack is made of, in the order
// in which they are read. Other bytes are never read. When Write has reported body as [ImportStep].Body, those before are
// in the pack. Bytes may come several times.
func (s *SteppedImport) Reads(yield func(body int64, file string, off, size int64) bool) {
	s.steps.Reads(yield)
}

// An ImportStep says how far a pack is written.
type ImportStep struct {
	Body int64  // bytes of tensors that are in the pack
	File int64  // bytes of the pack
	Sum  uint32 // CRC-32C of them
}

// PackFile is a file that a pack is written to.
type PackFile interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	Sync() error
}

// ImportSteps configures [SteppedImport.Write].
type ImportSteps struct {
	// From is the last step that an earlier Write reported for the same file.
	From ImportStep
	// Every is how many bytes of tensors lie between two steps.
	Every int64
	// Checkpoint receives each step when it is durable.
	Checkpoint func(ImportStep) error
	// Hashes returns the SHA-256 of the model's files of weights by their paths, when all of them have arrived.
	Hashes func(context.Context) (map[string]FileHash, error)
}

// A FileHash is the SHA-256 and the size of a file.
type FileHash struct {
	SHA256 [sha256.Size]byte
	Size   int64
}

// Write writes the pack. Reads of the model's files must wait until the bytes have arrived. When Write returns nil, the
// file is a pack and durable.
func (s *SteppedImport) Write(ctx context.Context, to PackFile, o ImportSteps) (err error) {
	defer ended.Say(ctx, &err)
	return s.steps.Write(ctx, to, weights.Steps{
		From: pack.Progress(o.From), Every: o.Every,
		Checkpoint: func(p pack.Progress) error { return o.Checkpoint(ImportStep(p)) },
		Hashes: func(ctx context.Context) (map[string]digest.File, error) {
			hashes, err := o.Hashes(ctx)
			files := map[string]digest.File{}
			for path, h := range hashes {
				files[path] = digest.File{Sum: h.SHA256, Size: h.Size}
			}
			return files, err
		},
	})
}
