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

// maxJSON bounds the configuration files of a model; the largest in use, a
// tokenizer, has about 30 MB.
const maxJSON = 256 << 20

// Files is a model on flash: where its tensors are and what it says about
// itself. Nothing of the weights is in memory.
type Files struct {
	Path   string
	Source store.Source
	Hyper  *arch.Hyper

	FS     vfs.FS
	dir    string         // of the files beside the weights; not of GGUF
	meta   *gguf.Metadata // GGUF only, or a pack of one
	packed *pack.File     // packs only
	cached *cacheUse      // packs that a cache holds of the model at Path
	family *arch.Family

	warnings []string
}

// Open finds a model: a GGUF file (any part of a split one), a safetensors
// file, a directory that holds either, or a pack.
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

// fileKind is which reader a model needs.
type fileKind int

const (
	kindGGUF fileKind = iota
	kindSafetensors
	kindPack
)

// locate returns the path to open and what is there.
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
		return f.Path, kindGGUF, nil // its reader says what else a file is
	}
	f.dir = f.Path
	if _, err := f.FS.Stat(vfs.Join(f.Path, "config.json")); err == nil {
		return f.Path, kindSafetensors, nil
	}
	entries, err := f.FS.ReadDir(f.Path)
	if err != nil {
		return "", 0, err
	}
	for _, e := range entries { // sorted, so that the first part of a split model comes first
		if !e.IsDir && strings.HasSuffix(e.Name, ".gguf") {
			return vfs.Join(f.Path, e.Name), kindGGUF, nil
		}
	}
	return "", 0, fmt.Errorf("%w: %s holds neither config.json nor a .gguf file", arch.ErrModel, f.Path)
}

func (f *Files) openGGUF(path string) error {
	g, err := gguf.Open(f.FS, path)
	if err != nil {
		return err
	}
	f.Source, f.meta = g, g.Meta()
	if len(g.Tensors()) == 0 {
		return nil // a vocabulary
	}
	f.Hyper, f.family, err = arch.HyperFromGGUF(g, g, path)
	return err
}

// readConfig reads config.json, which says everything about the network.
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

// Warnings returns what the owner of the model should know: sentences, in the
// order in which they came up.
func (f *Files) Warnings() []string { return f.warnings }

// read returns a file beside the weights.
func (f *Files) read(name string) ([]byte, error) {
	return vfs.ReadFile(f.FS, vfs.Join(f.dir, name), maxJSON)
}

// readOptional is read for a file that a model may lack; it then returns nil.
func (f *Files) readOptional(name string) ([]byte, error) {
	data, err := f.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// TensorBytes returns the size of all tensors as they are in the files.
func (f *Files) TensorBytes() (n int64) {
	for _, t := range f.Source.Tensors() {
		n += t.Size
	}
	return n
}

// Format names the kind of file.
func (f *Files) Format() string {
	if f.packed != nil && f.cached == nil {
		return "pack"
	}
	if f.meta != nil {
		return "gguf"
	}
	return "safetensors"
}

// Name returns the model's own name for itself, or "".
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
		return nil, fmt.Errorf("%w: %s holds a vocabulary and no weights", arch.ErrModel, f.Path)
	}
	ts := f.TensorSet()
	if f.Hyper.Vocab == 0 {
		if t, ok := ts.Find("token_embd", -1, ".weight"); ok {
			f.Hyper.Vocab = t.Rows()
		}
	}
	if have := len(f.Source.Tensors()); f.Hyper.Layers > have {
		return nil, f.Hyper.FieldError(arch.KeyLayers, "%d layers, and no more than %d tensors", f.Hyper.Layers, have)
	}
	return f.family.Spec(f.Hyper)
}

// TensorSet returns the tensors of the files under the names of the model's family.
func (f *Files) TensorSet() *TensorSet {
	return newTensorSet(f.Source, f.family, f.Hyper, f.packed != nil)
}

// Quantized reports whether any of the weights can be multiplied in integers.
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
