package modelfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
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
	"chat_template.jinja", "chat_template.json",
}

// openPack opens a pack. Its attachments describe the model in the format of its source.
func (f *Files) openPack(path string) error {
	p, err := pack.Open(f.FS, path)
	if err != nil {
		return err
	}
	f.Source, f.packed = p, p
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

// CanStream reports whether weights can be streamed while the model is in use: the model is
// a pack and no overlay changes its tensors. exact is exec.Options.Exact.
func (f *Files) CanStream(exact bool) (bool, error) {
	ts, err := f.TensorsFor(exact)
	if err != nil {
		return false, err
	}
	_, ok := ts.Source.(*pack.File)
	return ok, nil
}

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
		return []pack.Attachment{{Name: ggufAttachment, Data: data.Bytes()}}, nil
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
	return list, nil
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

// SourceFiles lists the files of the model at f.Path without opening it, for its
// fingerprint.
func (f *Files) SourceFiles() ([]string, error) {
	path, kind, err := f.locate()
	if err != nil {
		return nil, err
	}
	dir, base := vfs.Split(path)
	belongs := func(name string) bool { return name == base }
	if kind == kindSafetensors {
		dir = f.dir
		belongs = func(name string) bool {
			return strings.HasSuffix(name, ".safetensors") || strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".jinja")
		}
	} else if part := partName.FindStringSubmatch(base); part != nil {
		belongs = func(name string) bool {
			other := partName.FindStringSubmatch(name)
			return other != nil && other[1] == part[1] && other[2] == part[2]
		}
	}
	entries, err := f.FS.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir && belongs(e.Name) {
			files = append(files, vfs.Join(dir, e.Name))
		}
	}
	return files, nil
}

// About returns the origin of a pack made from f.
func (f *Files) About(made string) (a pack.About, err error) {
	_, a.Source = vfs.Split(f.Path)
	a.CreatedBy = made
	if f.packed != nil {
		was := f.packed.About()
		a.Source, a.SourceBytes, a.Fingerprint = was.Source, was.SourceBytes, was.Fingerprint
		return a, nil
	}
	files, err := f.SourceFiles()
	if err != nil {
		return a, err
	}
	a.Fingerprint, a.SourceBytes, err = pack.FingerprintOf(f.FS, files)
	return a, err
}
