package modelfile

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// maxJSON limits the size of a model's configuration files. The largest known file, a
// tokenizer, has about 30 MB.
const maxJSON = 256 << 20

// Files is an open model: the location of its tensors and its metadata. It holds no weights
// in memory.
type Files struct {
	Path   string
	Source store.Source
	Hyper  *arch.Hyper

	FS     vfs.FS
	dir    string         // of the configuration files; not for GGUF
	meta   *gguf.Metadata // of a GGUF file, or of a pack made from one
	packed *pack.File     // only of packs
	cached *cacheUse      // only of packs in a cache
	family *arch.Family

	warnings []string
}

// Open opens a model: a GGUF file (any part of a split one), a safetensors file, a
// directory that contains either, or a pack.
func Open(fsys vfs.FS, path string) (*Files, error) {
	f := &Files{Path: path, FS: fsys}
	file, kind, err := f.locate()
	if err != nil {
		return nil, err
	}
	switch kind {
	case kindGGUF:
		err = f.openGGUF(file)
	case kindSafetensors:
		err = f.openSafetensors(file)
	case kindPack:
		err = f.openPack(file)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// fileKind selects the reader of a model.
type fileKind int

const (
	kindGGUF fileKind = iota
	kindSafetensors
	kindPack
)

// locate returns the path to open and its kind.
func (f *Files) locate() (path string, kind fileKind, err error) {
	info, err := f.FS.Stat(f.Path)
	if err != nil {
		return "", 0, err
	}
	if !info.IsDir {
		switch {
		case strings.HasSuffix(f.Path, ".safetensors") || strings.HasSuffix(f.Path, ".safetensors.index.json"):
			f.dir, _ = vfs.Split(f.Path)
			return f.Path, kindSafetensors, nil
		case IsPack(f.FS, f.Path):
			return f.Path, kindPack, nil
		}
		return f.Path, kindGGUF, nil // the GGUF reader reports a file of another kind
	}
	f.dir = f.Path
	if _, err := f.FS.Stat(vfs.Join(f.Path, "config.json")); err == nil {
		return f.Path, kindSafetensors, nil
	}
	entries, err := f.FS.ReadDir(f.Path)
	if err != nil {
		return "", 0, err
	}
	for _, e := range entries { // sorted: the first part of a split model comes first
		if !e.IsDir && strings.HasSuffix(e.Name, ".gguf") {
			return vfs.Join(f.Path, e.Name), kindGGUF, nil
		}
	}
	return "", 0, fmt.Errorf("%w: %s contains neither config.json nor a .gguf file", arch.ErrModel, f.Path)
}

func (f *Files) openGGUF(path string) error {
	g, err := gguf.Open(f.FS, path)
	if err != nil {
		return err
	}
	f.Source, f.meta = g, g.Meta()
	if len(g.Tensors()) == 0 {
		return nil // a vocabulary without weights
	}
	f.Hyper, f.family, err = arch.HyperFromGGUF(g, g, path)
	return err
}

// readConfig reads config.json, which describes the network.
func (f *Files) readConfig() error {
	data, err := f.read("config.json")
	if err != nil {
		return err
	}
	f.Hyper, f.family, err = arch.HyperFromHF(vfs.Join(f.dir, "config.json"), data)
	return err
}

func (f *Files) openSafetensors(path string) error {
	if err := f.readConfig(); err != nil {
		return err
	}
	src, err := safetensors.Open(f.FS, path)
	if err != nil {
		return err
	}
	f.Source = src
	if f.Hyper.IntPacking != nil {
		f.Source, f.warnings, err = UnpackIntegers(src, f.Hyper.IntPacking, f.Path)
	}
	return err
}

// Warnings returns sentences for the user about the model, in order of discovery.
func (f *Files) Warnings() []string { return f.warnings }

// read returns a configuration file.
func (f *Files) read(name string) ([]byte, error) {
	return vfs.ReadFile(f.FS, vfs.Join(f.dir, name), maxJSON)
}

// readOptional is read for an optional file. It returns nil if the file does not exist.
func (f *Files) readOptional(name string) ([]byte, error) {
	data, err := f.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// TensorBytes returns the size of all tensors in the files.
func (f *Files) TensorBytes() (n int64) {
	for _, t := range f.Source.Tensors() {
		n += t.Size
	}
	return n
}

// Format returns the name of the file format.
func (f *Files) Format() string {
	if f.packed != nil && f.cached == nil {
		return "pack"
	}
	if f.meta != nil {
		return "gguf"
	}
	return "safetensors"
}

// Name returns the model's name from its metadata, or "".
func (f *Files) Name() string {
	if f.meta == nil {
		return ""
	}
	name, _, _ := f.meta.String("general.name")
	return name
}

// Spec returns the description of the network.
func (f *Files) Spec() (*arch.Spec, error) {
	if f.family == nil {
		return nil, fmt.Errorf("%w: %s contains a vocabulary but no weights", arch.ErrModel, f.Path)
	}
	ts := f.TensorSet()
	if f.Hyper.Vocab == 0 {
		if t, ok := ts.Find("token_embd", -1, ".weight"); ok {
			f.Hyper.Vocab = t.Rows()
		}
	}
	if have := len(f.Source.Tensors()); f.Hyper.Layers > have {
		return nil, f.Hyper.FieldError(arch.KeyLayers, "%d layers, but no more than %d tensors", f.Hyper.Layers, have)
	}
	spec, err := f.family.Spec(f.Hyper)
	if err != nil {
		return nil, err
	}
	return spec, ts.checkSurplus()
}

// TensorSet returns the tensors of the files by role.
func (f *Files) TensorSet() *TensorSet {
	return newTensorSet(f.Source, f.family, f.Hyper, f.packed != nil)
}

// Quantized reports whether a tensor has a type with integer kernels.
func (f *Files) Quantized() bool {
	return slices.ContainsFunc(f.Source.Tensors(), func(t store.Tensor) bool { return tiled.Supported(t.Type) })
}

// Close closes the files.
func (f *Files) Close() error {
	if f.Source == nil {
		return nil
	}
	return f.Source.Close()
}
