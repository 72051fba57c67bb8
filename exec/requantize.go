package exec

import (
	"fmt"
	"sort"
	"strings"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
)

// mixes are the named ways to quantize a model whose weights are floats: what
// becomes of most matrices, and of those that suffer most from few bits (the
// output head and the matrix that leads out of an MLP). An embedding that is
// only looked up stays as it is, and so do norms, biases and routers.
var mixes = map[string]struct{ most, careful quant.Type }{
	"q8": {quant.Q8_0, quant.Q8_0},
	"q4": {quant.Q4_1, quant.Q8_0},
}

// Mixes returns the names of the ways to quantize.
func Mixes() []string {
	var names []string
	for n := range mixes {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// Roles of the matrices that a mix quantizes.
var (
	mostRoles = []string{
		"attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_gate", "ffn_up", "ffn_gate_exps", "ffn_up_exps",
		"ffn_gate_shexp", "ffn_up_shexp", "shortconv.in_proj", "shortconv.out_proj",
	}
	carefulRoles = []string{"ffn_down", "ffn_down_exps", "ffn_down_shexp"}
)

// Quantize makes the model's weights appear in a mix: they are rounded as they
// are read. Weights that are quantized already stay as they are.
func (f *Files) Quantize(mix string) error {
	m, ok := mixes[mix]
	if !ok {
		return fmt.Errorf("%w: quantization %q (known: %s)", ErrUnsupported, mix, strings.Join(Mixes(), ", "))
	}
	spec, err := f.Spec()
	if err != nil {
		return err
	}
	ts := f.tensors()
	q := &requantized{newOverlay(f.Source)}
	_, hasHead := ts.find("output", -1, ".weight")
	if hasHead && !spec.Tied {
		q.change(ts.name("output", -1)+".weight", m.careful)
	} else {
		q.change(ts.name("token_embd", -1)+".weight", m.careful)
	}
	for l := range spec.Layers {
		for roles, typ := range map[*[]string]quant.Type{&mostRoles: m.most, &carefulRoles: m.careful} {
			for _, role := range *roles {
				q.changeRole(ts.name(role, l), spec.Experts, typ)
			}
		}
	}
	f.Source = q
	return nil
}

// requantized is a model whose float matrices are rounded as they are read.
type requantized struct{ overlay }

// changeRole changes a layer's tensor, or that of each expert.
func (q *requantized) changeRole(name string, experts int, typ quant.Type) {
	if !strings.Contains(name, "%d") {
		q.change(name+".weight", typ)
		return
	}
	for e := range experts {
		q.change(fmt.Sprintf(name, e)+".weight", typ)
	}
}

// change gives a tensor another type, if the model has it and its rows can be
// had in that type.
func (q *requantized) change(name string, typ quant.Type) {
	i, ok := q.index[name]
	if !ok {
		return
	}
	t := &q.tensors[i]
	rowBytes, err := typ.RowBytes(t.Cols())
	if !t.Type.IsFloat() || err != nil {
		return
	}
	t.Type, t.Size = typ, int64(t.Rows())*int64(rowBytes)
}

// ReadAt reads a tensor; the rows of a changed one are computed.
func (q *requantized) ReadAt(t store.Tensor, p []byte, off int64) (int, error) {
	base, ok := q.Source.Tensor(t.Name)
	if !ok || base.Type == t.Type {
		return q.Source.ReadAt(t, p, off)
	}
	row := make([]float32, t.Cols())
	out := make([]byte, t.Size/int64(t.Rows()))
	return readComputed(t, p, off, func(i int) ([]byte, error) {
		if err := readRow(q.Source, base, row, i); err != nil {
			return nil, err
		}
		return out, quant.QuantizeRow(t.Type, out, row)
	})
}
