package modelfile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// Pooling is how the hidden states of a text become one vector.
type Pooling string

// The kinds of pooling.
const (
	PoolUnnamed  Pooling = ""
	PoolNone     Pooling = "none" // every token keeps its vector
	PoolMean     Pooling = "mean"
	PoolCLS      Pooling = "cls"  // the first token
	PoolLast     Pooling = "last" // the last token
	PoolMax      Pooling = "max"
	PoolRootMean Pooling = "mean_sqrt_len" // the sum, divided by the root of the number of tokens
	PoolWeighted Pooling = "weightedmean"  // the mean with the weights 1, 2, 3, …
)

// Description is what the files of a model say about describing texts: how hidden states become a vector or a score.
type Description struct {
	Pooling       Pooling           `json:"pooling,omitempty"`
	ExcludePrompt bool              `json:"exclude_prompt,omitempty"` // the tokens of a prompt take no part in the pooling
	Dense         []Dense           `json:"dense,omitempty"`          // applied to the pooled vector, in order
	Prompts       map[string]string `json:"prompts,omitempty"`        // by task, such as "query"
	Prompt        string            `json:"prompt,omitempty"`         // of texts without a task
	MaxTokens     int               `json:"max_tokens,omitempty"`     // of a text with its special tokens; 0: as the network has
	Lower         bool              `json:"lower,omitempty"`          // texts are read in small letters
	Head          *Head             `json:"head,omitempty"`
}

// Dense is a layer behind the network.
type Dense struct {
	Rows       int    `json:"rows"`
	Cols       int    `json:"cols"`
	Activation string `json:"activation,omitempty"` // "", "tanh", "gelu", "relu", "silu"
	Weight     Floats `json:"weight"`               // [Rows, Cols]
	Bias       Floats `json:"bias"`                 // [Rows], or of no elements
}

// Floats are values that [Description.Load] reads.
type Floats struct {
	N      int       `json:"n"`
	Values []float32 `json:"-"`
	read   func(dst []float32) error
}

// Files of sentence-transformers, and the attachments of a pack that have what it says.
const (
	modulesFile    = "modules.json"
	sentencesFile  = "config_sentence_transformers.json"
	transformFile  = "sentence_bert_config.json"
	poolingFile    = "1_Pooling/config.json"
	describedFile  = "describe.json"
	describedFloat = "describe.f32"
)

// maxDense bounds the layers behind a network, and their width.
const (
	maxDense      = 16
	maxDenseWidth = 1 << 17
)

// Description reads what the files say about describing texts. The values of its matrices are read by Load.
func (f *Files) Description() (*Description, error) {
	if f.described != nil {
		return f.described, nil
	}
	spec, err := f.Spec()
	if err != nil {
		return nil, err
	}
	d := &Description{}
	switch {
	case f.packed != nil:
		err = f.describedInPack(d)
	case f.meta != nil:
		err = f.describedInGGUF(d, spec)
	default:
		err = f.describedInHub(d, spec)
	}
	if err == nil && f.packed == nil {
		d.Head, err = f.findHead(spec)
	}
	if err == nil {
		err = d.check(f, spec)
	}
	if err != nil {
		return nil, err
	}
	f.described = d
	return d, nil
}

// Describes reports whether the model is meant to describe texts: it generates none, or its files say how the states of tokens
// become a vector or a score. Policies of TRL, which have a value head beside their output, are meant to generate.
func (f *Files) Describes() bool {
	if f.Hyper == nil || f.Hyper.Headless || f.Hyper.Bidirectional {
		return f.Hyper != nil
	}
	d, err := f.Description()
	return err == nil && (d.Pooling != PoolUnnamed || d.Head != nil && d.Head.Tensor != valueHead)
}

// check checks the sizes of the layers.
func (d *Description) check(f *Files, spec *arch.Spec) error {
	cols := spec.Dim
	if len(d.Dense) > maxDense {
		return fmt.Errorf("%w: %s: %d dense layers behind the network (at most %d)", arch.ErrUnsupported, f.Path, len(d.Dense), maxDense)
	}
	for i := range d.Dense {
		if err := d.Dense[i].check(f, cols, fmt.Sprintf("dense layer %d", i)); err != nil {
			return err
		}
		cols = d.Dense[i].Rows
	}
	return d.Head.check(f, spec.Dim)
}

func (d *Dense) check(f *Files, cols int, what string) error {
	if d.Cols != cols || d.Rows < 1 || d.Rows > maxDenseWidth || d.Weight.N != d.Rows*d.Cols || d.Bias.N != 0 && d.Bias.N != d.Rows {
		return fmt.Errorf("%w: %s: %s has %d rows of %d elements (weight of %d, bias of %d elements), not rows of %d",
			arch.ErrModel, f.Path, what, d.Rows, d.Cols, d.Weight.N, d.Bias.N, cols)
	}
	if !slices.Contains([]string{"", "tanh", "gelu", "relu", "silu"}, d.Activation) {
		return fmt.Errorf("%w: %s: %s: activation %q", arch.ErrUnsupported, f.Path, what, d.Activation)
	}
	return nil
}

// floats lists all values of the description, in the order of a pack.
func (d *Description) floats() (list []*Floats) {
	for i := range d.Dense {
		list = append(list, &d.Dense[i].Weight, &d.Dense[i].Bias)
	}
	return append(list, d.Head.floats()...)
}

// Floats returns the number of values that Load reads.
func (d *Description) Floats() (n int) {
	for _, v := range d.floats() {
		n += v.N
	}
	return n
}

// Load reads all values into memory for Floats values, which must live as long as the description is used.
func (d *Description) Load(memory []float32) error {
	for _, v := range d.floats() {
		v.Values, memory = memory[:v.N:v.N], memory[v.N:]
		if v.N == 0 {
			continue
		}
		if err := v.read(v.Values); err != nil {
			return err
		}
	}
	return nil
}

// empty reports whether the files say nothing.
func (d *Description) empty() bool {
	return d.Pooling == PoolUnnamed && len(d.Dense) == 0 && len(d.Prompts) == 0 && d.MaxTokens == 0 && d.Head == nil && !d.Lower
}

// tensorFloats returns the values of a tensor; of none, if there is none of the name.
func tensorFloats(src store.Source, name string) Floats {
	t, ok := src.Tensor(name)
	if !ok {
		return Floats{}
	}
	return Floats{N: Elems(t.Shape), read: func(dst []float32) error { return readFloatsInto(src, t, dst) }}
}

// readFloatsInto reads a tensor a few rows at a time.
func readFloatsInto(src store.Source, t store.Tensor, dst []float32) error {
	elems, size := t.Type.BlockElems(), t.Type.BlockBytes()
	if len(dst)%elems != 0 || int64(len(dst)/elems*size) != t.Size {
		return fmt.Errorf("%w: tensor %s: %d values in %d bytes of %s", arch.ErrModel, t.Name, len(dst), t.Size, t.Type)
	}
	blocks := max(1, columnBytes/size)
	raw := make([]byte, min(int64(blocks*size), t.Size))
	for off := int64(0); len(dst) > 0; {
		n := min(blocks*elems, len(dst))
		part := raw[:n/elems*size]
		if _, err := src.ReadAt(t, part, off); err != nil {
			return err
		}
		quant.DequantRow(t.Type, dst[:n], part)
		off, dst = off+int64(len(part)), dst[n:]
	}
	return nil
}

// columnBytes is roughly how many bytes of a tensor are read at a time.
const columnBytes = 256 << 10

// ggufPoolings are the kinds of pooling by the value of pooling_type.
var ggufPoolings = []Pooling{PoolNone, PoolMean, PoolCLS, PoolLast, PoolUnnamed}

// describedInGGUF reads the keys and tensors of a GGUF file.
func (f *Files) describedInGGUF(d *Description, spec *arch.Spec) error {
	c := &arch.GGUFConfig{Meta: f.meta, Arch: f.architecture(), Path: f.Path}
	if kind := c.Num("pooling_type", len(ggufPoolings)-1); kind < 0 || kind >= len(ggufPoolings) {
		return fmt.Errorf("%w: %s: key %s: kind %d of pooling", arch.ErrUnsupported, f.Path, c.Key("pooling_type"), kind)
	} else if d.Pooling = ggufPoolings[kind]; kind == 0 { // what converters write if the model's files say nothing
		d.Pooling = PoolUnnamed
	}
	cols := spec.Dim
	for i := 2; ; i++ {
		name := fmt.Sprintf("dense_%d", i)
		t, ok := f.Source.Tensor(name + ".weight")
		if !ok {
			return c.Err
		}
		if d.Pooling == PoolUnnamed {
			return fmt.Errorf("%w: %s: tensor %s without a pooling (key %s), as in models with a vector for each token; --pooling gives the states of the network alone",
				arch.ErrUnsupported, f.Path, t.Name, c.Key("pooling_type"))
		}
		layer := Dense{Cols: cols, Weight: tensorFloats(f.Source, t.Name), Bias: tensorFloats(f.Source, name+".bias")}
		layer.Rows = layer.Weight.N / max(1, cols)
		d.Dense, cols = append(d.Dense, layer), layer.Rows
	}
}

// module is an entry of modules.json.
type module struct{ Path, Type string }

// describedInHub reads the files of sentence-transformers.
func (f *Files) describedInHub(d *Description, spec *arch.Spec) error {
	modules := []module{{Path: "1_Pooling", Type: "Pooling"}}
	found, err := f.decode(modulesFile, &modules)
	if err != nil {
		return err
	}
	cols, pooled, normal := spec.Dim, false, false
	for _, m := range modules {
		kind := m.Type[strings.LastIndexByte(m.Type, '.')+1:]
		if kind == "Dense" && !pooled || normal && kind != "Normalize" {
			return fmt.Errorf("%w: %s: %s: module %q before the pooling or behind the normalization, as in models with a vector for each token; --pooling gives the states of the network alone",
				arch.ErrUnsupported, f.Path, modulesFile, m.Type)
		}
		pooled, normal = pooled || kind == "Pooling", normal || kind == "Normalize"
		switch kind {
		case "Transformer", "Normalize":
		case "Pooling":
			if err := f.readPooling(d, m.Path, found); err != nil {
				return err
			}
		case "Dense":
			layer, err := f.readDense(m.Path, cols)
			if err != nil {
				return err
			}
			d.Dense, cols = append(d.Dense, layer), layer.Rows
		case "Dropout":
		default:
			return fmt.Errorf("%w: %s: %s: module %q", arch.ErrUnsupported, f.Path, modulesFile, m.Type)
		}
	}
	var c struct {
		Prompts map[string]*string
		Default *string `json:"default_prompt_name"`
	}
	if _, err := f.decode(sentencesFile, &c); err != nil {
		return err
	}
	d.Prompts = map[string]string{}
	for task, text := range c.Prompts {
		if text != nil {
			d.Prompts[task] = *text
		}
	}
	if c.Default != nil {
		d.Prompt = d.Prompts[*c.Default]
	}
	var t struct {
		Max   *int `json:"max_seq_length"`
		Lower bool `json:"do_lower_case"`
	}
	if _, err := f.decode(transformFile, &t); err != nil {
		return err
	}
	d.Lower = t.Lower
	if t.Max != nil && *t.Max > 0 {
		d.MaxTokens = *t.Max
	}
	return nil
}

// decode reads an optional JSON file.
func (f *Files) decode(name string, into any) (found bool, err error) {
	data, err := f.readFinite(name)
	if data == nil || err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return false, fmt.Errorf("%w: %s: %w", arch.ErrModel, vfs.Join(f.dir, name), err)
	}
	return true, nil
}

// readPooling reads the configuration of a pooling module, which must be there if modules.json names it.
func (f *Files) readPooling(d *Description, path string, required bool) error {
	var c map[string]json.RawMessage
	name := vfs.Join(path, "config.json")
	switch found, err := f.decode(name, &c); {
	case err != nil:
		return err
	case !found && required:
		return fmt.Errorf("%w: %s is missing, which %s names", arch.ErrModel, vfs.Join(f.dir, name), modulesFile)
	case !found:
		return nil
	}
	modes := map[string]Pooling{
		"pooling_mode_cls_token": PoolCLS, "pooling_mode_mean_tokens": PoolMean, "pooling_mode_max_tokens": PoolMax,
		"pooling_mode_mean_sqrt_len_tokens": PoolRootMean, "pooling_mode_weightedmean_tokens": PoolWeighted, "pooling_mode_lasttoken": PoolLast,
	}
	var chosen []Pooling
	for key, pooling := range modes {
		if string(c[key]) == "true" {
			chosen = append(chosen, pooling)
		}
	}
	if raw, ok := c["pooling_mode"]; ok && len(chosen) == 0 { // files of newer versions
		var one string
		if json.Unmarshal(raw, &one) == nil {
			one = strings.TrimSuffix(one, "token")
			for _, pooling := range modes {
				if one == string(pooling) {
					chosen = append(chosen, pooling)
				}
			}
		}
	}
	if len(chosen) != 1 {
		return fmt.Errorf("%w: %s: %d kinds of pooling; known are models with one of mean, cls, last, max, mean_sqrt_len and weightedmean",
			arch.ErrUnsupported, vfs.Join(f.dir, name), len(chosen))
	}
	d.Pooling, d.ExcludePrompt = chosen[0], string(c["include_prompt"]) == "false"
	return nil
}

// readDense reads a dense module.
func (f *Files) readDense(path string, cols int) (layer Dense, err error) {
	var c struct {
		In         int     `json:"in_features"`
		Out        int     `json:"out_features"`
		Activation *string `json:"activation_function"`
	}
	name := vfs.Join(path, "config.json")
	found, err := f.decode(name, &c)
	if err == nil && !found {
		err = fmt.Errorf("%w: %s is missing, which %s names", arch.ErrModel, vfs.Join(f.dir, name), modulesFile)
	}
	if err != nil {
		return layer, err
	}
	layer = Dense{Rows: c.Out, Cols: c.In, Activation: "tanh"} // the default of the reference
	if c.Activation != nil {
		kind := strings.ToLower((*c.Activation)[strings.LastIndexByte(*c.Activation, '.')+1:])
		if layer.Activation = kind; kind == "identity" {
			layer.Activation = ""
		}
	}
	weights := vfs.Join(path, "model.safetensors")
	src, err := safetensors.Open(vfs.Confine(f.FS, f.dir), weights)
	if errors.Is(err, fs.ErrNotExist) {
		return layer, fmt.Errorf("%s is missing, which has the weights of the module %s (files of other formats are not read): %w", vfs.Join(f.dir, weights), path, err)
	}
	if err != nil {
		return layer, err
	}
	f.modules = append(f.modules, src)
	layer.Weight, layer.Bias = tensorFloats(src, "linear.weight"), tensorFloats(src, "linear.bias")
	return layer, layer.check(f, cols, vfs.Join(f.dir, name))
}

// moduleFiles lists the files of modules of a Hugging Face directory.
func (f *Files) moduleFiles() (names []string) {
	modules := []module{{Path: "1_Pooling"}}
	if _, err := f.decode(modulesFile, &modules); err != nil {
		return nil // opening the model says why
	}
	for _, m := range modules {
		if m.Path == "" || m.Path == "." {
			continue
		}
		for _, name := range []string{vfs.Join(m.Path, "config.json"), vfs.Join(m.Path, "model.safetensors")} {
			if info, err := vfs.Confine(f.FS, f.dir).Stat(name); err == nil && !info.IsDir {
				names = append(names, vfs.Join(f.dir, name))
			}
		}
	}
	return names
}

// describedInPack reads the attachments of a pack.
func (f *Files) describedInPack(d *Description) error {
	found, err := f.decode(describedFile, d)
	if !found || err != nil {
		return err
	}
	off := int64(0)
	for _, v := range d.floats() {
		if v.N < 0 || v.N > maxDenseWidth*maxDenseWidth {
			return fmt.Errorf("%w: %s: %s: a matrix of %d elements", arch.ErrModel, f.Path, describedFile, v.N)
		}
		at := off
		v.read = func(dst []float32) error { return f.readDescribed(dst, at) }
		off += 4 * int64(v.N)
	}
	return nil
}

// readDescribed reads values of a pack's description.
func (f *Files) readDescribed(dst []float32, off int64) error {
	file, err := f.FS.Open(describedFloat)
	if err != nil {
		return err
	}
	raw := make([]byte, min(columnBytes, 4*len(dst)))
	for len(dst) > 0 && err == nil {
		part := raw[:min(len(raw), 4*len(dst))]
		if _, err = file.ReadAt(part, off); err == nil {
			n := len(part) / 4
			quant.DequantRow(quant.F32, dst[:n], part)
			off, dst = off+int64(len(part)), dst[n:]
		}
	}
	return errors.Join(err, file.Close())
}

// describedAttachments returns the attachments that have the description.
func (f *Files) describedAttachments() ([]pack.Attachment, error) {
	d, err := f.Description()
	if err != nil || d.empty() {
		return nil, err
	}
	memory := make([]float32, d.Floats())
	if err := d.Load(memory); err != nil {
		return nil, err
	}
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	var values bytes.Buffer
	values.Grow(4 * len(memory))
	for _, v := range memory {
		values.Write(binary.LittleEndian.AppendUint32(values.AvailableBuffer(), math.Float32bits(v)))
	}
	list := []pack.Attachment{{Name: describedFile, Data: text}}
	if len(memory) > 0 {
		list = append(list, pack.Attachment{Name: describedFloat, Data: values.Bytes()})
	}
	return list, nil
}
