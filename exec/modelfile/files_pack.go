package modelfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// ggufAttachment is the attachment of a pack made from a GGUF file: a GGUF file with all
// metadata and no weights.
const ggufAttachment = "model.gguf"

// hubAttachments are the attachments of a pack made from a Hugging Face directory: the
// configuration files that the engine reads.
var hubAttachments = []string{
	"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
	"chat_template.jinja", "chat_template.json", modulesFile, sentencesFile, transformFile,
}

// openPack opens a pack. Its attachments describe the model in the format of its source.
func (f *Files) openPack(path string) error {
	p, err := pack.Open(f.FS, path)
	if err != nil {
		return err
	}
	f.Source, f.packed, f.packFS = p, p, f.FS
	f.FS, f.dir = p.Attachments(), "."
	if _, err := f.FS.Stat(ggufAttachment); errors.Is(err, fs.ErrNotExist) {
		return f.readConfig()
	}
	g, err := gguf.Open(f.FS, ggufAttachment)
	if err != nil {
		return err
	}
	f.meta = g.Meta()
	f.Hyper, f.family, err = arch.HyperFromGGUF(g, p, path)
	return errors.Join(err, g.Close())
}

// IsPack reports whether path is a pack by its name or content.
func IsPack(fsys vfs.FS, path string) bool {
	return strings.HasSuffix(path, pack.Suffix) || pack.Is(fsys, path)
}

// Packed returns the pack that f was opened from, or nil.
func (f *Files) Packed() *pack.File { return f.packed }

// Attachments returns the attachments of a pack made from f.
func (f *Files) Attachments() (list []pack.Attachment, err error) {
	if f.meta != nil {
		tables, err := f.ropeTables()
		if err != nil {
			return nil, err
		}
		var data bytes.Buffer
		if err := gguf.WriteCopy(&data, f.meta, tables); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		described, err := f.describedAttachments()
		return append([]pack.Attachment{{Name: ggufAttachment, Data: data.Bytes()}}, described...), err
	}
	for _, name := range hubAttachments {
		data, err := f.readOptional(name)
		if err != nil {
			return nil, err
		}
		if data != nil {
			list = append(list, pack.Attachment{Name: name, Data: data})
		}
	}
	described, err := f.describedAttachments()
	return append(list, described...), err
}

// ropeTables returns the rotary tables of a GGUF file, which belong to the metadata.
func (f *Files) ropeTables() (tables []gguf.TensorData, err error) {
	for _, t := range f.Source.Tensors() {
		if !strings.HasPrefix(t.Name, arch.RopePrefix) {
			continue
		}
		if t.Size > arch.MaxTableBytes {
			return nil, &store.FormatError{
				Path: f.Path, Off: t.Offset, Field: fmt.Sprintf("tensor %q", t.Name),
				Reason: fmt.Sprintf("has %d bytes, but a rotary table has at most %d", t.Size, arch.MaxTableBytes), Kind: store.ErrFormat,
			}
		}
		data := make([]byte, t.Size)
		if _, err := f.Source.ReadAt(t, data, 0); err != nil {
			return nil, err
		}
		tables = append(tables, gguf.TensorData{Name: t.Name, Type: t.Type, Shape: t.Shape, Data: data})
	}
	return tables, nil
}

// partName matches the name of a part of a split GGUF file: the common name, the part's
// number and the number of parts.
var partName = regexp.MustCompile(`^(.*)-\d{5}-of-(\d{5})\.gguf$`)

// indexSuffix is the suffix of the file that lists the weights of a safetensors model.
const indexSuffix = ".safetensors.index.json"

// SourceFiles lists the files that the model at f.Path consists of, without opening it.
func (f *Files) SourceFiles() ([]string, error) {
	path, kind, err := f.locate()
	if err != nil {
		return nil, err
	}
	if kind != kindSafetensors {
		return f.parts(path)
	}
	weights := f.safetensorsFiles(path)
	files, err := f.list(f.dir, func(name string) bool { return weights(name) || slices.Contains(hubAttachments, name) })
	return append(files, f.moduleFiles()...), err
}

// Models lists the models in a directory: GGUF files, of which a split one counts once, packs, and
// the directory itself if it is a model in the safetensors format. Another path is one model.
func Models(fsys vfs.FS, path string) ([]string, error) {
	info, err := fsys.Stat(path)
	if err != nil || !info.IsDir {
		return []string{path}, err
	}
	found, err := modelsIn(fsys, path)
	if err != nil {
		return nil, err
	}
	var models []string
	for _, m := range found {
		models = append(models, m.path)
	}
	if len(models) == 0 {
		return nil, fmt.Errorf("%s contains neither config.json nor a .gguf or %s file: %w", path, pack.Suffix, fs.ErrNotExist)
	}
	return models, nil
}

// foundModel is a model in a directory: a file, or the directory itself.
type foundModel struct {
	path string
	kind fileKind
}

// modelsIn lists the models in a directory by name, the first part of each split one.
func modelsIn(fsys vfs.FS, dir string) (models []foundModel, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{} // common names of split files
	for _, e := range entries {
		path := vfs.Join(dir, e.Name)
		part := partName.FindStringSubmatch(e.Name)
		switch {
		case e.IsDir:
		case e.Name == "config.json":
			models = append(models, foundModel{dir, kindSafetensors})
		case part != nil:
			if whole := part[1] + part[2]; !seen[whole] {
				seen[whole] = true
				models = append(models, foundModel{path, kindGGUF})
			}
		case strings.HasSuffix(e.Name, ".gguf"):
			models = append(models, foundModel{path, kindGGUF})
		case strings.HasSuffix(e.Name, pack.Suffix):
			models = append(models, foundModel{path, kindPack})
		}
	}
	return models, nil
}

// parts lists the parts of the GGUF file at path, or path alone if it is not split.
func (f *Files) parts(path string) ([]string, error) {
	dir, base := vfs.Split(path)
	part := partName.FindStringSubmatch(base)
	if part == nil {
		return []string{path}, nil
	}
	return f.list(dir, func(name string) bool {
		other := partName.FindStringSubmatch(name)
		return other != nil && other[1] == part[1] && other[2] == part[2]
	})
}

// safetensorsFiles returns a function that reports whether a file of the model's directory
// holds weights, or lists those that do. path is the model's path.
func (f *Files) safetensorsFiles(path string) func(name string) bool {
	_, base := vfs.Split(path)
	if path == f.dir {
		base = "model.safetensors"
		if _, err := f.FS.Stat(vfs.Join(f.dir, base)); err != nil {
			base = "model" + indexSuffix
		}
	}
	indexed := strings.HasSuffix(base, indexSuffix)
	return func(name string) bool { return name == base || indexed && strings.HasSuffix(name, ".safetensors") }
}
