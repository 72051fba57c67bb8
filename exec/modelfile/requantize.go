package modelfile

import (
	"fmt"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
)

// Mix is a named choice of types for quantizing a model with float weights. Norms, biases
// and routers stay unchanged in all of them. An embedding that is not the output matrix
// becomes BF16.
type Mix struct {
	Name  string
	About string // description for users
	// The types of the output head, the down projections, and all other matrices. The first
	// two are the most sensitive to quantization.
	head, down, other quant.Type
}

// mixes are the choices, the most accurate first.
var mixes = []Mix{
	{"q8", "8 bits, a scale for 32 weights", quant.Q8_0, quant.Q8_0, quant.Q8_0},
	{"q4", "4 bits, a scale and an offset for 32 weights; 8 bits for the output head and the MLPs' down projections", quant.Q8_0, quant.Q8_0, quant.Q4_1},
	{"nf4", "like q4, with 16 levels for normally distributed weights instead of even steps, and no offset", quant.Q8_0, quant.Q8_0, quant.NF4},
	{"q4s", "like q4, with even steps on both sides of zero, and no offset", quant.Q8_0, quant.Q8_0, quant.Q4_0},
	{"q4all", "like q4, with 4 bits for the MLPs' down projections too", quant.Q8_0, quant.Q4_1, quant.Q4_1},
}

// Mixes returns the choices, the most accurate first.
func Mixes() []Mix { return mixes }

// FourBits reports whether the mix has 4-bit weights. A calibration improves their scales.
func (m *Mix) FourBits() bool { return m.other != quant.Q8_0 }

// MixNamed returns the mix with a name.
func MixNamed(name string) (*Mix, error) {
	var names []string
	for i := range mixes {
		if mixes[i].Name == name {
			return &mixes[i], nil
		}
		names = append(names, mixes[i].Name)
	}
	return nil, fmt.Errorf("%w: quantization %q (known: %s)", arch.ErrUnsupported, name, strings.Join(names, ", "))
}

// The roles of the matrices that a mix quantizes, mapped to the roles under which
// calibration measures their importance.
var (
	otherRoles = map[string]string{
		"attn_q": "attn_q", "attn_k": "attn_k", "attn_v": "attn_v", "attn_qkv": "attn_q", "attn_output": "attn_output",
		"ffn_gate": "ffn_gate", "ffn_up": "ffn_up", "ffn_gate_exps": "ffn_gate", "ffn_up_exps": "ffn_up",
		"ffn_gate_shexp": "ffn_gate_shexp", "ffn_up_shexp": "ffn_up_shexp",
		"shortconv.in_proj": "shortconv.in_proj", "shortconv.out_proj": "shortconv.out_proj",
	}
	downRoles = map[string]string{"ffn_down": "ffn_down", "ffn_down_exps": "ffn_down", "ffn_down_shexp": "ffn_down_shexp"}
)

// Quantize makes float weights appear in the types of a mix; they are quantized as they are
// read. Quantized weights stay unchanged. importance, which may be nil, is the result of a
// calibration.
func (f *Files) Quantize(mix string, importance Importance) error {
	m, err := MixNamed(mix)
	if err != nil {
		return err
	}
	spec, err := f.Spec()
	if err != nil {
		return err
	}
	ts := f.TensorSet()
	q := &Quantized{NewOverlay(f.Source), map[string][]float32{}}
	_, hasHead := ts.Find("output", -1, ".weight")
	embed := ts.name("token_embd", -1) + ".weight"
	if hasHead && !spec.Tied {
		q.setType(ts.name("output", -1)+".weight", m.head, nil)
		q.setType(embed, quant.BF16, nil)
	} else if !spec.Encoder.Bidirectional {
		q.setType(embed, m.head, nil)
	}
	first := 0
	if spec.Encoder.Bidirectional {
		q.setType(embed, firstType, nil)
		q.setFirstLayer(ts)
		first = 1
	}
	for l := first; l < len(spec.Layers); l++ {
		for role, like := range otherRoles {
			q.setRoleType(ts.name(role, l), l, like, spec.Experts, m.other, importance)
		}
		for role, like := range downRoles {
			q.setRoleType(ts.name(role, l), l, like, spec.Experts, m.down, importance)
		}
	}
	f.Source = q
	return nil
}

// firstType is the type of an encoder's embedding and first layer: their errors go through all other layers, and make
// up most of the error of a vector in 8 bits. Rows of the embedding stay on flash, and the layer is one of many.
const firstType = quant.F16

// setFirstLayer changes the matrices of the first layer.
func (q *Quantized) setFirstLayer(ts *TensorSet) {
	for _, roles := range []map[string]string{otherRoles, downRoles} {
		for role := range roles {
			q.setType(ts.name(role, 0)+".weight", firstType, nil)
		}
	}
}

// Quantized is a model whose float matrices are quantized as they are read.
type Quantized struct {
	Overlay
	Importance map[string][]float32 // [cols] by tensor, if measured
}

// setRoleType changes a layer's tensor, or that of each expert. like is the role of its
// importance.
func (q *Quantized) setRoleType(name string, layer int, like string, experts int, typ quant.Type, importance Importance) {
	if !strings.Contains(name, "%d") {
		q.setType(name+".weight", typ, importance[TensorName(like, layer, ".weight")])
		return
	}
	for e := range experts {
		q.setType(fmt.Sprintf(name, e)+".weight", typ, importance[TensorName(ExpertRole(like, e), layer, ".weight")])
	}
}

// setType changes the type of a tensor, if the model has it, the type supports its row
// length, and the tensor becomes smaller.
func (q *Quantized) setType(name string, typ quant.Type, importance []float32 /* [cols] or nil */) {
	i, ok := q.Index[name]
	if !ok {
		return
	}
	t := &q.Visible[i]
	rowBytes, err := typ.RowBytes(t.Cols())
	size := int64(t.Rows()) * int64(rowBytes)
	if !t.Type.IsFloat() || err != nil || size >= t.Size {
		return
	}
	t.Type, t.Size = typ, size
	if len(importance) == t.Cols() {
		q.Importance[name] = importance
	}
}

// ReadAt reads a tensor and computes the rows of a changed one.
func (q *Quantized) ReadAt(t store.Tensor, p []byte, off int64) (int, error) {
	base, ok := q.Source.Tensor(t.Name)
	if !ok || base.Type == t.Type {
		return q.Source.ReadAt(t, p, off)
	}
	return ReadComputed(q.Source, base, t, p, off, func(out []byte, row []float32, _ int) error {
		return quant.QuantizeRow(t.Type, out, row, q.Importance[t.Name])
	})
}

// Importance maps the GGUF name of each matrix to the mean square of each of its inputs
// over a calibration text (llama.cpp's imatrix). It weighs the error of the weights of that
// input.
type Importance map[string][]float32 // [cols]
