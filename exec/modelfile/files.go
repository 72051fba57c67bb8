package modelfile

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/digest"
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
	packFS vfs.FS         // of the pack; FS holds its attachments
	cached *cacheUse      // only of packs in a cache
	// adapterBytes is the size of the factors of adapters.
	adapterBytes int64
	beside       *besideWeights // adapters that are not merged; nil without any
	family       *arch.Family
	latent       *latentHeads // nil: no matrices of latent attention appear apart

	// Hashes remembers the hashes of the model's files. nil remembers them for the process.
	Hashes *digest.Memo
	// Known are hashes of the model's files, by path, that Hashes is not asked for.
	Known   map[string]digest.File
	content *Content             // nil until it is known
	stamps  map[string]vfs.Stamp // of the files before they were opened
	stamped time.Time            // when stamps were taken
	index   *store.Index         // of GGUF and safetensors files
	// stampErr is why some files have no stamp, nil if all were read.
	stampErr error

	modules   []store.Source // with the weights of modules behind the network
	described *Description
	warnings  []string
	// headers is the memory that the meter of FS counts for the headers.
	headers int64
	meter   vfs.Meter
	// tensorsOnly: the metadata lack what only the tokenizer needs.
	tensorsOnly bool
}

// countHeaders calls open and notes what it reserves with the meter of fsys.
func (f *Files) countHeaders(fsys vfs.FS, open func() error) error {
	if f.meter = vfs.MeterOf(fsys); f.meter == nil {
		return open()
	}
	before := f.meter.Held()
	err := open()
	f.headers = f.meter.Held() - before
	return err
}

// Open opens a model: a GGUF file (any part of a split one), a safetensors file, a
// directory that contains either, or a pack.
func Open(fsys vfs.FS, path string) (*Files, error) {
	return open(&Files{Path: path, FS: fsys})
}

// open opens the model at f.Path.
func open(f *Files) (*Files, error) {
	fsys := f.FS
	file, kind, err := f.locate()
	if err != nil {
		return nil, err
	}
	if kind != kindPack {
		f.stampFiles()
	}
	open := map[fileKind]func(string) error{kindGGUF: f.openGGUF, kindSafetensors: f.openSafetensors, kindPack: f.openPack}[kind]
	if err := f.countHeaders(fsys, func() error { return open(file) }); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if f.Hyper != nil {
		if err := f.splitLatent(); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.Hyper.Headless = f.Hyper.Headless || f.hasOnlyHead()
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
	models, err := modelsIn(f.FS, f.Path)
	if err != nil {
		return "", 0, err
	}
	for _, kind := range []fileKind{kindSafetensors, kindGGUF} {
		found := slices.DeleteFunc(slices.Clone(models), func(m foundModel) bool { return m.kind != kind })
		for _, m := range found {
			if len(found) == 1 || kind == kindSafetensors || f.isLanguageModel(m.path) {
				return m.path, kind, nil
			}
		}
		if len(found) > 0 {
			return found[0].path, kind, nil // whose reader says what it is
		}
	}
	return "", 0, fmt.Errorf("%s contains neither config.json nor a .gguf file: %w", f.Path, fs.ErrNotExist)
}

// isLanguageModel reports whether a GGUF file of a directory is no projector of a vision model, no adapter and no
// importance matrix, which often lie beside the language model. It reports a file that cannot be read: opening it says why.
func (f *Files) isLanguageModel(path string) bool {
	dir, name := vfs.Split(path)
	if strings.Contains(strings.ToLower(name), "mmproj") {
		return false
	}
	if meter := vfs.MeterOf(f.FS); meter != nil {
		defer func(before int64) { meter.Release(meter.Held() - before) }(meter.Held())
	}
	g, err := gguf.OpenTensors(vfs.Confine(f.FS, dir), name)
	if err != nil {
		return true
	}
	defer g.Close()
	kind, _, _ := g.Meta().String("general.type")
	architecture, _, _ := g.Meta().String("general.architecture")
	return !slices.Contains([]string{"adapter", "mmproj", "imatrix"}, kind) && architecture != "clip"
}

func (f *Files) openGGUF(path string) error {
	fsys, name := f.FS, path
	if dir, base := vfs.Split(path); path != f.Path { // found in the directory f.Path
		fsys, name = vfs.Confine(fsys, dir), base
	}
	openFile := gguf.Open
	if f.tensorsOnly {
		openFile = gguf.OpenTensors
	}
	g, err := openFile(fsys, name)
	if err != nil {
		return err
	}
	f.Source, f.meta, f.index = g, g.Meta(), g.Index
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
	f.Source, f.index = src, src.Index
	switch {
	case f.Hyper.IntPacking != nil:
		f.Source, f.warnings, err = UnpackIntegers(src, f.Hyper.IntPacking, f.Path)
	case f.Hyper.TransposedExperts() && (!f.Hyper.MXFP4 || withoutBlocks(src)):
		f.Source, err = unpackColumns(src, f.Path)
	case f.Hyper.MXFP4:
		f.Source, err = unpackMXFP4(src, f.Path)
	}
	if text := f.TensorSet().leftOut(); err == nil && text != "" {
		f.warnings = append(f.warnings, text)
	}
	return err
}

// Warnings returns sentences for the user about the model, in order of discovery.
func (f *Files) Warnings() []string { return f.warnings }

// read returns a configuration file. A link out of the directory is refused: whoever made the
// directory would otherwise choose which of the user's files the program reads.
//
// The file has been reserved with the meter while it was read. Only the reader of the
// tokenizer works long with it, and reserves it again.
func (f *Files) read(name string) ([]byte, error) {
	data, err := vfs.ReadFile(vfs.Confine(f.FS, f.dir), name, maxJSON)
	vfs.Release(f.FS, int64(len(data)))
	return data, err
}

// readOptional is read for an optional file. It returns nil if the file does not exist.
func (f *Files) readOptional(name string) ([]byte, error) {
	data, err := f.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// readFinite is readOptional for a configuration of the model, in which numbers that are infinite become null: JSON has none.
func (f *Files) readFinite(name string) ([]byte, error) {
	data, err := f.readOptional(name)
	if data == nil || err != nil {
		return nil, err
	}
	return arch.WithoutInfinity(data), nil
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
		return nil, fmt.Errorf("%w: %s contains a vocabulary but no weights", arch.ErrUnsupported, f.Path)
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
	if f.meter != nil {
		f.meter.Release(f.headers)
		f.headers = 0
	}
	var err error
	for _, m := range f.modules {
		err = errors.Join(err, m.Close())
	}
	if f.modules = nil; f.Source == nil {
		return err
	}
	return errors.Join(err, f.Source.Close())
}
