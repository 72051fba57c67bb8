package modelfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/store"
)

// nameRoot is where a safetensors file keeps the language model's tensors: a prefix of the
// family's names, or a replacement of their root "model.".
type nameRoot struct {
	prefix   string
	replaces bool // only names that begin with modelRoot have the prefix, instead of it
}

// modelRoot begins most families' names, except that of the output matrix.
const modelRoot = "model."

// nameRoots are the known places: text models, multimodal ones, and decoders that were saved
// without what is around them.
var nameRoots = []nameRoot{
	{},
	{prefix: "language_model."},
	{"model.language_model.", true},
	{"", true},
	{"bert.", true},
	{"roberta.", true}, // encoders with a head
}

// of returns the name in the file.
func (r nameRoot) of(name string) string {
	if !r.replaces {
		return r.prefix + name
	}
	if rest, ok := strings.CutPrefix(name, modelRoot); ok {
		return r.prefix + rest
	}
	return name
}

func newTensorSet(src store.Source, fam *arch.Family, h *arch.Hyper, packed bool) *TensorSet {
	ts := &TensorSet{Source: src, family: fam, Hyper: h, Path: h.Path, packed: packed}
	if h.GGUF || packed {
		return ts
	}
	for _, r := range nameRoots {
		ts.root = r
		if _, ok := src.Tensor(ts.name("token_embd", -1) + ".weight"); ok {
			ts.findHead()
			return ts
		}
	}
	ts.root = nameRoot{}
	return ts
}

// name returns the file's name of a role without ".weight" or ".bias".
func (ts *TensorSet) name(role string, layer int) string {
	switch {
	case ts.packed:
		return TensorName(role, layer, "")
	case ts.Hyper.GGUF:
		return TensorName(ts.family.GGUFRole(role), layer, "")
	}
	if role == "output" && ts.head != "" {
		return ts.head
	}
	return ts.root.of(ts.family.HFName(role, layer))
}

// findHead looks for the output matrix outside of the root: some versions of transformers put it beside the
// decoder, others into it.
func (ts *TensorSet) findHead() {
	name := ts.family.HFName("output", -1)
	for _, at := range []string{ts.root.of(name), name, ts.root.prefix + name, "language_model." + name, modelRoot + name} {
		if _, ok := ts.Source.Tensor(at + ".weight"); ok {
			ts.head = at
			return
		}
	}
}

// leftOut returns a sentence about the tensors of a safetensors model that are no part of the
// language model, such as those of a vision encoder; "" if there are none.
func (ts *TensorSet) leftOut() string {
	root := strings.TrimSuffix(ts.name("", 0), "layers.0.")
	if ts.Hyper.Bidirectional {
		root = ts.root.of(modelRoot)
	}
	head := ts.name("output", -1) + "."
	var groups []string
	count, bytes := 0, int64(0)
	for _, t := range ts.Source.Tensors() {
		if strings.HasPrefix(t.Name, root) || strings.HasPrefix(t.Name, head) || ofHead(t.Name) && (ts.Hyper.Bidirectional || slices.Contains(headTensors, t.Name)) {
			continue
		}
		count, bytes = count+1, bytes+t.Size
		if g := groupOf(t.Name); !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	if count == 0 {
		return ""
	}
	slices.Sort(groups)
	const most = 8
	if len(groups) > most {
		groups = append(groups[:most], "…")
	}
	return fmt.Sprintf("%s: %d tensors (%.1f MB) are left out, because they are no part of the language model: %s",
		ts.Path, count, float64(bytes)/1e6, strings.Join(groups, ", "))
}

// groupOf returns the part of the model that a tensor belongs to, by its name.
func groupOf(name string) string {
	name = strings.TrimPrefix(name, modelRoot)
	part, _, _ := strings.Cut(name, ".")
	return part
}

// OutsideLayers returns where files have a tensor that a pack has in the given layer.
func (ts *TensorSet) OutsideLayers(layer int) int {
	if ts.packed {
		return layer
	}
	return -1
}

// predictsNext reports whether a layer of a safetensors file joins the hidden state with the next token's embedding, to
// predict the token behind it. Files need not count such layers.
func (ts *TensorSet) predictsNext(layer int) bool {
	_, joins := ts.Source.Tensor(strings.TrimSuffix(ts.name("", layer), ".") + ".eh_proj.weight")
	return joins && !ts.Hyper.GGUF
}

// checkSurplus returns an error if a tensor belongs to a layer that the configuration does
// not count. The network would compute without that layer, and its answers would be wrong.
func (ts *TensorSet) checkSurplus() error {
	prefix := strings.TrimSuffix(ts.name("", 0), "0.")
	for _, t := range ts.Source.Tensors() {
		rest, ok := strings.CutPrefix(t.Name, prefix)
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(rest, ".")
		if layer, err := strconv.Atoi(number); err == nil && layer >= ts.Hyper.Layers+ts.Hyper.NextLayers && !ts.predictsNext(layer) {
			return ts.Hyper.FieldError(arch.KeyLayers, "%d layers, but the tensor %s belongs to layer %d; correct the field or download the model again",
				ts.Hyper.Layers, t.Name, layer)
		}
	}
	return nil
}
