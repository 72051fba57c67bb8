package synth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/vfs"
)

// Errors of this package.
var (
	// ErrOptions says that a file cannot be made as asked.
	ErrOptions = errors.New("synth: invalid options")
	// ErrDiskFull says that the file does not fit.
	ErrDiskFull = errors.New("not enough space for the file")
)

// Options say what to write.
type Options struct {
	Shape Shape
	Quant string // one of Mixes
	// Context replaces the shape's longest sequence; 0 keeps it.
	Context int
	// RouterSkew makes experts unevenly used: 0 for alike, 1 for about what
	// published models show. It has no effect on a model without experts.
	RouterSkew float64
	Seed       uint64
	// Progress, which may be nil, is called with the bytes of tensors written.
	Progress func(done, total int64)
}

const (
	maxContext = 1 << 28
	maxSkew    = 8
)

func (o *Options) validate() error {
	if _, ok := families[o.Shape.Arch]; !ok {
		return fmt.Errorf("%w: Shape: no tensors are known for the architecture %q", ErrOptions, o.Shape.Arch)
	}
	if _, ok := findMix(o.Quant); !ok {
		return fmt.Errorf("%w: Quant is %q; it must be one of %v", ErrOptions, o.Quant, Mixes())
	}
	if o.Shape.Vocab < minVocab {
		return fmt.Errorf("%w: Shape: %d tokens; the vocabulary has at least %d", ErrOptions, o.Shape.Vocab, minVocab)
	}
	if o.Context < 0 || o.Context > maxContext {
		return fmt.Errorf("%w: Context is %d; it must lie between 0 and %d", ErrOptions, o.Context, maxContext)
	}
	if !(o.RouterSkew >= 0 && o.RouterSkew <= maxSkew) {
		return fmt.Errorf("%w: RouterSkew is %v; it must lie between 0 and %d", ErrOptions, o.RouterSkew, maxSkew)
	}
	return nil
}

// Write writes a model to a file, which is there completely or not at all.
func Write(ctx context.Context, fsys vfs.FS, path string, o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	if o.Context != 0 {
		o.Shape.Context = o.Context
	}
	m, _ := findMix(o.Quant) // validate has seen it
	total, err := o.Shape.Bytes(o.Quant)
	if err != nil {
		return err
	}
	tensors, err := o.tensors(ctx, m, total)
	if err != nil {
		return err
	}
	err = gguf.Write(fsys, path, o.Shape.metadata(m), tensors)
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w: it takes %d bytes; free some, or write it to another disk: %w", ErrDiskFull, total, err)
	}
	return err
}

// tensors returns all tensors with what makes their bytes, total in all.
func (o *Options) tensors(ctx context.Context, m mix, total int64) (out []gguf.TensorData, err error) {
	written := int64(0)
	done := func(n int) {
		written += int64(n)
		if o.Progress != nil {
			o.Progress(written, total)
		}
	}
	chunk := make([]byte, bufferBytes)
	for _, t := range o.Shape.tensors() {
		data := gguf.TensorData{Name: t.name, Type: m.typeOf(&t, o.Shape.Layers), Shape: t.shape}
		if data.From, err = o.reader(ctx, &t, data.Type, chunk, done); err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return out, nil
}

// reader returns what yields a tensor's bytes.
func (o *Options) reader(ctx context.Context, t *tensor, typ quant.Type, chunk []byte, done func(int)) (io.Reader, error) {
	n := int(t.elems())
	src := newSource(o.Seed, t.name)
	switch t.fill {
	case fillGain:
		return vectorReader(func() []float32 { return gains(src, n) }, done), nil
	case fillBias:
		return vectorReader(func() []float32 { return biases(src, n) }, done), nil
	case fillRouter:
		return vectorReader(func() []float32 { return router(src, t.shape[0], t.cols(), o.RouterSkew) }, done), nil
	case fillRopeFactors:
		return vectorReader(o.Shape.ropeFactors, done), nil
	}
	return matrixReader(ctx, t, typ, src, chunk, done)
}

// Bytes returns how many bytes the tensors of a shape take, quantized by one of
// Mixes.
func (s Shape) Bytes(mixName string) (int64, error) {
	m, ok := findMix(mixName)
	if !ok {
		return 0, fmt.Errorf("%w: there is no mix %q", ErrOptions, mixName)
	}
	var total int64
	for _, t := range s.tensors() {
		size, fits, err := store.Bytes(m.typeOf(&t, s.Layers), t.shape)
		if err != nil {
			return 0, fmt.Errorf("%w: tensor %s: %w", ErrOptions, t.name, err)
		}
		if !fits {
			return 0, fmt.Errorf("%w: tensor %s: the shape %v is out of range", ErrOptions, t.name, t.shape)
		}
		total += size
	}
	return total, nil
}
