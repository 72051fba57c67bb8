// Package modelflag declares the flags that select the model of a measurement (a file, random
// weights in a published shape, or the bundled model) and runs the measurement on that model.
package modelflag

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/cli"
)

// DefaultMix is the quantization of random weights.
const DefaultMix = "q4_0"

// Source is the model of a measurement.
type Source struct {
	Path  string // of a file or directory; "" for a shape or the bundled model
	Shape string // of random weights
	Mix   string // their quantization
	Keep  bool   // do not remove the file of random weights
	// Context is the context length of a shape; 0 = that of the published model.
	Context int
	// Bundled returns the model without -m and --shape, a path in a file system, of which nil is the system's; nil = there is none.
	Bundled func() (path string, fsys fs.FS)
	// Find returns the path of the model that a flag names; nil: only paths name models.
	Find func(flag, name string) (string, error)
}

// Add declares the flags.
func (m *Source) Add(f *cli.FlagSet, usage string) {
	m.Mix = DefaultMix
	f.Group("Model")
	f.Text(&m.Path, "m model", "PATH", usage)
	f.Text(&m.Shape, "shape", "NAME", "random weights in the shape of this model; llmrun synth --list shows the shapes")
	AddMix(f, &m.Mix)
	f.Toggle(&m.Keep, "keep", "do not remove the file that --shape writes")
}

// check refuses flags that contradict each other.
func (m *Source) check() error {
	switch {
	case m.Shape != "" && m.Path != "":
		return cli.Usagef("-m names a model and --shape generates one: give one of them")
	case m.Keep && m.Shape == "":
		return cli.Usagef("--keep needs --shape")
	case m.Bundled == nil && m.Shape == "" && m.Path == "":
		return cli.Usagef("give -m or --shape")
	}
	return nil
}

// find returns the path and file system of the model. It writes the model of a shape first; the
// caller calls remove afterwards.
func (m *Source) find(ctx context.Context, s *cli.Streams) (path string, fsys fs.FS, remove func(), err error) {
	switch {
	case m.Shape != "":
		path, remove, err = m.synthesize(ctx, s)
		return path, nil, remove, err
	case m.Path != "" && m.Find != nil:
		path, err := m.Find("-m", m.Path)
		return path, nil, func() {}, err
	case m.Path != "":
		return m.Path, nil, func() {}, cli.CheckExists("-m", m.Path)
	}
	path, fsys = m.Bundled()
	return path, fsys, func() {}, nil
}

// synthesize writes the model of a shape to the user's cache directory. remove deletes it, unless
// --keep was given.
func (m *Source) synthesize(ctx context.Context, s *cli.Streams) (path string, remove func(), err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", nil, err
	}
	dir := filepath.Join(cache, "llmrun", "synth") // separate from imported models
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, strings.ToLower(m.Shape)+"-"+m.Mix+".gguf")
	_, err = Write(ctx, s, bench.SynthOptions{Path: path, Force: true, Shape: m.Shape, Quant: m.Mix, Context: m.Context})
	if err != nil {
		return "", nil, err
	}
	return path, func() {
		if m.Keep {
			fmt.Fprintf(s.Err, "llmrun: the model stays in %s\n", cli.VisibleLine(path))
		} else if err := os.Remove(path); err != nil {
			fmt.Fprintf(s.Err, "llmrun: removing the model failed: %s\n", cli.OneLine(err))
		}
	}, nil
}

// AddMix declares --quant.
func AddMix(f *cli.FlagSet, mix *string) {
	mixes := bench.Mixes()
	f.Value("quant", "MIX", strings.Join(mixes, ", ")+"; default: "+DefaultMix, func(s string) error {
		if !slices.Contains(mixes, strings.ToLower(s)) {
			return fmt.Errorf("must be one of %s, not %q", strings.Join(mixes, ", "), s)
		}
		*mix = strings.ToLower(s)
		return nil
	})
}

// AddKV declares --kv.
func AddKV(f *cli.FlagSet, format *string) {
	f.Choice(format, "kv", "FORMAT", "precision of keys and values: f32; f16, half of that; k8v8, a quarter; k8f8, the same size with values in 8-bit floats; or k4v8, a fifth; default: k8v8 with quantized weights unless they are computed exactly, and f32 otherwise",
		"f32", "f16", "k8v8", "k8f8", "k4v8")
}

// Write writes a model of random weights with a progress bar.
func Write(ctx context.Context, s *cli.Streams, o bench.SynthOptions) (int64, error) {
	bar := cli.NewMeter(s, "writing", cli.FormatBytes)
	defer bar.Finish()
	o.Progress = bar.Update
	size, err := bench.Synth(ctx, o)
	switch {
	case errors.Is(err, bench.ErrShape):
		return 0, UnknownShape(o.Shape)
	case errors.Is(err, bench.ErrExists):
		return 0, fmt.Errorf("%w; --force replaces it", err)
	case err != nil:
		return 0, cli.Interruption(ctx, err)
	}
	return size, nil
}

// UnknownShape returns the usage error for an unknown shape.
func UnknownShape(name string) error {
	var names []string
	shapes, err := bench.Shapes(DefaultMix)
	if err != nil {
		return err
	}
	for _, shape := range shapes {
		names = append(names, shape.Name)
	}
	if near := cli.Nearest(strings.ToLower(name), names); near != "" {
		return cli.Usagef("--shape: there is no shape %q; did you mean %q?", name, near)
	}
	return cli.Usagef("--shape: there is no shape %q; 'llmrun synth --list' shows the shapes", name)
}

// FormatRuns formats the amount of a meter that counts runs of tests.
func FormatRuns(n int64) string { return fmt.Sprintf("%d runs", n) }
