package synth

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/vfs"
)

// Errors that Write returns.
var (
	// ErrOptions reports invalid options.
	ErrOptions = errors.New("synth: invalid options")
	// ErrDiskFull reports that the file does not fit on the disk.
	ErrDiskFull = errors.New("not enough space for the file")
)

// Options describe the file to write.
type Options struct {
	Shape Shape
	Quant string // one of Mixes
	// Context replaces the context length of the shape; 0 keeps it.
	Context int
	// RouterSkew makes the use of experts uneven: 0 for equal use, 1 for about the skew of
	// published models. It has no effect on a model without experts.
	RouterSkew float64
	Seed       uint64
	// Progress, which may be nil, receives the number of tensor bytes written.
	Progress func(done, total int64)
}

const (
	maxContext = 1 << 28
	maxSkew    = 8
)

// validate checks the options. Errors name the field and what it accepts.
func (o *Options) validate() error {
	if _, ok := families[o.Shape.Arch]; !ok {
		return fmt.Errorf("%w: Shape: the architecture %q is not supported", ErrOptions, o.Shape.Arch)
	}
	if _, ok := findMix(o.Quant); !ok {
		return fmt.Errorf("%w: Quant is %q; it must be one of %v", ErrOptions, o.Quant, Mixes())
	}
	if o.Shape.Vocab < minVocab {
		return fmt.Errorf("%w: Shape: a vocabulary of %d tokens is too small; it needs at least %d", ErrOptions, o.Shape.Vocab, minVocab)
	}
	if o.Context < 0 || o.Context > maxContext {
		return fmt.Errorf("%w: Context is %d; it must be between 0 and %d", ErrOptions, o.Context, maxContext)
	}
	if !(o.RouterSkew >= 0 && o.RouterSkew <= maxSkew) {
		return fmt.Errorf("%w: RouterSkew is %v; it must be between 0 and %d", ErrOptions, o.RouterSkew, maxSkew)
	}
	return nil
}

// Write writes a model to a file atomically.
func Write(ctx context.Context, fsys vfs.FS, path string, o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	if o.Context != 0 {
		o.Shape.Context = o.Context
	}
	m, _ := findMix(o.Quant) // validate has checked the name
	total, err := o.Shape.Bytes(o.Quant)
	if err != nil {
		return err
	}
	tensors, err := o.tensors(ctx, m, total)
	if err != nil {
		return err
	}
	err = gguf.Write(fsys, path, o.Shape.metadata(m), tensors)
	if vfs.IsDiskFull(err) {
		return fmt.Errorf("%w: it takes %d bytes; free some space or choose another disk: %w", ErrDiskFull, total, err)
	}
	return err
}

// tensors returns all tensors with readers of their bytes. total is the size of all
// tensors.
func (o *Options) tensors(ctx context.Context, m mix, total int64) (out []gguf.TensorData, err error) {
	written := int64(0)
	done := func(n int) {
		written += int64(n)
		if o.Progress != nil {
			o.Progress(written, total)
		}
	}
	buffer := make([]byte, bufferBytes)
	for _, t := range o.Shape.tensors() {
		data := gguf.TensorData{Name: t.name, Type: m.typeOf(&t, o.Shape.Layers), Shape: t.shape}
		if data.From, err = o.reader(ctx, &t, data.Type, buffer, done); err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return out, nil
}

// reader returns a reader of the tensor's bytes.
func (o *Options) reader(ctx context.Context, t *tensor, typ quant.Type, buffer []byte, done func(int)) (io.Reader, error) {
	n := int(t.elems())
	src := newSource(o.Seed, t.name)
	switch t.fill {
	case fillGain:
		return vectorReader(func() []float32 { return gains(src, n) }, done), nil
	case fillBias:
		return vectorReader(func() []float32 { return biases(src, n) }, done), nil
	case fillRouter:
		return vectorReader(func() []float32 { return router(src, t.shape[0], t.cols(), o.RouterSkew) }, done), nil
	case fillDecay:
		return vectorReader(func() []float32 { return decays(src, n) }, done), nil
	case fillLongFactors:
		return vectorReader(o.Shape.longFactors, done), nil
	case fillRopeFactors:
		return vectorReader(o.Shape.ropeFactors, done), nil
	}
	return matrixReader(ctx, t, typ, src, buffer, done)
}

// Bytes returns the total size of the tensors of a shape in one of the Mixes.
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
