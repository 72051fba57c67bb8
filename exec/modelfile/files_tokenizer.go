package modelfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/text/token"
)

// ErrNoTokenizer reports that a model works with token ids only.
var ErrNoTokenizer = errors.New("the model has no tokenizer")

// Tokenizer returns the model's tokenizer.
func (f *Files) Tokenizer() (*token.Tokenizer, error) {
	if f.meta != nil {
		model, _, err := f.meta.String("tokenizer.ggml.model")
		if err != nil {
			return nil, err
		}
		if slices.Contains([]string{"", "none", "no_vocab"}, model) { // values of files without a vocabulary
			return nil, fmt.Errorf("%w: %s", ErrNoTokenizer, f.Path)
		}
		return f.tokenizerFromGGUF()
	}
	return tokenizerIn(f.FS, f.dir, "tokenizer.json")
}

// Bounds of the memory of a tokenizer, relative to the bytes of its description, while it is
// built and afterwards. Vocabularies of 128 000 tokens in JSON take up to 5 times their file
// while they are built, and up to 2.7 times for the shortest pieces afterwards.
const (
	tokenizerBuilds = 6 // with the description itself
	tokenizerKeeps  = 2
)

// buildTokenizer calls build with memory reserved for a tokenizer whose description at path
// has n bytes.
func buildTokenizer(fsys vfs.FS, path string, n int64, build func() (*token.Tokenizer, error)) (*token.Tokenizer, error) {
	if err := vfs.Reserve(fsys, path, tokenizerBuilds*n); err != nil {
		return nil, err
	}
	defer vfs.Release(fsys, tokenizerBuilds*n) // TokenizerMemory counts what stays
	return build()
}

// TokenizerMemory bounds the memory that the model's tokenizer keeps, and what building it takes
// meanwhile.
func (f *Files) TokenizerMemory() (keeps, building int64, err error) {
	n := int64(0)
	if f.meta != nil {
		n = f.meta.Memory()
	} else {
		info, err := vfs.Confine(f.FS, f.dir).Stat("tokenizer.json")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, 0, err
		}
		n = info.Size
	}
	return tokenizerKeeps * n, tokenizerBuilds * n, nil
}

// tokenizerFromGGUF builds the tokenizer of GGUF metadata.
func (f *Files) tokenizerFromGGUF() (*token.Tokenizer, error) {
	return buildTokenizer(f.FS, f.Path, f.meta.Memory(), func() (*token.Tokenizer, error) { return token.FromGGUF(f.meta) })
}

// tokenizerIn reads a tokenizer.json, and the special tokens from the other configuration
// files of its directory.
func tokenizerIn(fsys vfs.FS, dir, name string) (*token.Tokenizer, error) {
	f := &Files{FS: fsys, dir: dir}
	data, err := f.readOptional(name)
	if err != nil {
		return nil, err
	}
	if data == nil {
		return nil, fmt.Errorf("%w: %s is missing", ErrNoTokenizer, vfs.Join(dir, name))
	}
	config := token.Config{Path: vfs.Join(dir, name)}
	for name, field := range map[string]*[]byte{
		"tokenizer_config.json":   &config.Tokenizer,
		"special_tokens_map.json": &config.SpecialMap,
		"generation_config.json":  &config.Generation,
		"config.json":             &config.Model,
	} {
		if *field, err = f.readFinite(name); err != nil {
			return nil, err
		}
	}
	t, err := buildTokenizer(fsys, config.Path, int64(len(data)), func() (*token.Tokenizer, error) { return token.FromJSON(data, config) })
	if err != nil && !errors.Is(err, vfs.ErrMemory) {
		return nil, fmt.Errorf("%s: %w", config.Path, err)
	}
	return t, err
}

// OpenTokenizer opens a tokenizer without a model: from a GGUF file with or without
// weights, a directory, or a tokenizer.json.
func OpenTokenizer(fsys vfs.FS, path string) (*token.Tokenizer, error) {
	f := &Files{Path: path, FS: fsys}
	if strings.HasSuffix(path, ".json") && !strings.HasSuffix(path, ".safetensors.index.json") {
		dir, base := vfs.Split(path)
		return tokenizerIn(fsys, dir, base)
	}
	if info, err := fsys.Stat(path); err == nil && info.IsDir {
		if _, err := fsys.Stat(vfs.Join(path, "tokenizer.json")); err == nil {
			return tokenizerIn(fsys, path, "tokenizer.json")
		}
	}
	file, kind, err := f.locate()
	switch {
	case err != nil:
		return nil, err
	case kind == kindSafetensors:
		return tokenizerIn(fsys, f.dir, "tokenizer.json")
	case kind == kindPack:
		opened, err := Open(fsys, path)
		if err != nil {
			return nil, err
		}
		t, err := opened.Tokenizer()
		return t, errors.Join(err, opened.Close())
	}
	// The tokenizer of an unsupported model family can be opened.
	g, err := gguf.Open(fsys, file)
	if err != nil {
		return nil, err
	}
	t, err := (&Files{Path: path, FS: fsys, meta: g.Meta()}).Tokenizer()
	return t, errors.Join(err, g.Close())
}

// EndIDs returns the token ids that end a generated text. If t is nil, they come from the
// configuration files.
func (f *Files) EndIDs(t *token.Tokenizer) ([]int32, error) {
	if t != nil {
		return t.EOS(), nil
	}
	for _, name := range []string{"generation_config.json", "config.json"} {
		if f.meta != nil {
			break
		}
		data, err := f.readFinite(name)
		if err != nil {
			return nil, err
		}
		var c struct {
			EOS json.RawMessage `json:"eos_token_id"`
		}
		if data == nil || json.Unmarshal(data, &c) != nil || c.EOS == nil {
			continue
		}
		var one int32
		var many []int32
		if json.Unmarshal(c.EOS, &one) == nil {
			return []int32{one}, nil
		}
		if json.Unmarshal(c.EOS, &many) == nil {
			return many, nil
		}
	}
	return nil, nil
}
