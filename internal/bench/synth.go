package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
)

// Errors of Synth.
var (
	ErrExists = errors.New("the file exists")
	ErrShape  = errors.New("there is no such shape")
)

// SynthOptions configure a model of random weights. See synth.Options for the fields.
type SynthOptions struct {
	Path       string
	Force      bool   // replace an existing file
	Shape      string // a name in Shapes
	Quant      string // one of Mixes
	Context    int
	RouterSkew float64
	Seed       uint64
	Progress   func(done, total int64)
}

// Synth writes a model of random weights and returns the bytes of its tensors. It leaves no file
// when it fails.
func Synth(ctx context.Context, o SynthOptions) (int64, error) {
	shape, ok := synth.FindShape(o.Shape)
	if !ok {
		return 0, fmt.Errorf("%w: %q", ErrShape, o.Shape)
	}
	disk := vfs.OS()
	switch info, err := disk.Stat(o.Path); {
	case err == nil && info.IsDir:
		return 0, fmt.Errorf("%s is a directory", o.Path)
	case err == nil && !o.Force:
		return 0, fmt.Errorf("%w: %s", ErrExists, o.Path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return 0, err
	}
	err := synth.Write(ctx, disk, o.Path, synth.Options{
		Shape: shape, Quant: o.Quant, Context: o.Context, RouterSkew: o.RouterSkew, Seed: o.Seed, Progress: o.Progress,
	})
	if err != nil {
		return 0, err
	}
	return shape.Bytes(o.Quant)
}

// ShapeInfo describes a shape.
type ShapeInfo struct {
	Name       string `json:"name"`
	Parameters int64  `json:"parameters"`
	Bytes      int64  `json:"bytes"` // of the tensors in the given mix
}

// Mixes lists the names of quantization mixes.
func Mixes() []string { return synth.Mixes() }

// Shapes describes all shapes, with sizes in a mix.
func Shapes(mix string) ([]ShapeInfo, error) {
	var out []ShapeInfo
	for _, s := range synth.Shapes() {
		size, err := s.Bytes(mix)
		if err != nil {
			return nil, err
		}
		out = append(out, ShapeInfo{s.Name, s.Parameters(), size})
	}
	return out, nil
}
