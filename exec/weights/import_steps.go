package weights

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/store/digest"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// ErrComputed reports a model whose tensors are computed from several ones of its files, so that its pack cannot be
// written while the files are deleted.
var ErrComputed = errors.New("its tensors are computed from several ones of its files")

// SteppedImport is a planned import of a model whose files arrive while the pack is written, and are deleted behind it.
type SteppedImport struct {
	im    *importer
	names map[string]string // paths of the files of weights by their last element
}

// ImportInSteps plans an import as Import writes it.
func ImportInSteps(f *modelfile.Files, o ImportOptions) (*SteppedImport, error) {
	switch f.Source.(type) {
	case *gguf.File, *safetensors.Dir:
	default:
		return nil, fmt.Errorf("%s: %w", f.Path, ErrComputed)
	}
	im, err := newImporter(f, o)
	if err != nil {
		return nil, err
	}
	paths, err := f.SourceFiles()
	if err != nil {
		return nil, err
	}
	s := &SteppedImport{im: im, names: map[string]string{}}
	for _, path := range paths {
		_, base := vfs.Split(path)
		s.names[base] = path
	}
	return s, nil
}

// Bytes returns about the size of the pack.
func (s *SteppedImport) Bytes() (int64, error) { return s.im.Bytes() }

// Reads calls yield for all bytes of the files that the pack is made of, in the order in which they are read: body is
// pack.Progress.Body when they are in the pack. Bytes may come several times.
func (s *SteppedImport) Reads(yield func(body int64, file string, off, size int64) bool) {
	files := s.im.files.Source.Files()
	s.im.eachBlock(func(c *rowBlock, end int64) bool {
		for _, r := range c.p.Slice.SubRows(c.first, c.rows).Ranges {
			_, base := vfs.Split(files[r.Tensor.File])
			if !yield(end, s.names[base], r.Tensor.Offset+r.Offset, r.Size) {
				return false
			}
		}
		return true
	})
}

// ID identifies the plan: another one may make another pack, or make it of other bytes.
func (s *SteppedImport) ID() [sha256.Size]byte {
	h := sha256.New()
	writeText(h, s.im.made)
	for _, a := range s.im.contents.Attachments {
		writeText(h, a.Name)
		writeText(h, string(a.Data))
	}
	for _, section := range s.im.contents.Sections {
		writeText(h, section.Name)
		for _, t := range section.Tensors {
			writeText(h, fmt.Sprint(t.Name, t.Type, t.Shape, t.Layout))
		}
	}
	s.Reads(func(body int64, file string, off, size int64) bool {
		writeText(h, fmt.Sprint(body, file, off, size))
		return true
	})
	return [sha256.Size]byte(h.Sum(nil))
}

// writeText adds a text and where it ends to a hash.
func writeText(h hash.Hash, text string) {
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(text))))
	io.WriteString(h, text) //nolint:errcheck // a hash never fails
}

// Steps are what a SteppedImport writes with.
type Steps struct {
	From       pack.Progress
	Every      int64 // bytes of tensors between checkpoints
	Checkpoint func(pack.Progress) error
	// Hashes returns the hashes of the files that have arrived, when all of them have.
	Hashes func(context.Context) (map[string]digest.File, error)
}

// Write writes the pack to a file; see pack.WriteInSteps. Reads of bytes that have not arrived must wait for them.
func (s *SteppedImport) Write(ctx context.Context, f pack.StepFile, o Steps) error {
	im := s.im
	hash := func(ctx context.Context) error {
		hashes, err := o.Hashes(ctx)
		im.files.Known = hashes
		return err
	}
	return im.run(ctx, o.From.Body, hash, func(body func(io.Writer) error) error {
		return pack.WriteInSteps(f, im.contents, o.From, o.Every, o.Checkpoint, func(w io.Writer, _ int64) error { return body(w) })
	})
}
