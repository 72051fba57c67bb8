package modelfile

import (
	"fmt"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/store"
)

// ScaleSuffix ends the names of the scales of whole matrices. Converters write them beside weights in
// NVFP4, whose 8-bit scales of blocks are relative to them: the product is multiplied by them. The
// scales of activations beside them (.input_scale) are for engines that round activations to 4 bits.
const ScaleSuffix = ".scale"

// Scale returns the optional scale of a matrix, one element. A fused matrix has one for all its parts.
func (ts *TensorSet) Scale(role string, layer int) (TensorSlice, bool, error) {
	return ts.elementOf(ts.scaleTensor(role, layer), 0, 1)
}

// ExpertScale returns the optional scale of one expert's matrix, out of those of all experts.
func (ts *TensorSet) ExpertScale(role, single string, layer, i, experts int) (TensorSlice, bool, error) {
	if ts.packed {
		return ts.Scale(single, layer)
	}
	return ts.elementOf(ts.scaleTensor(role, layer), i, experts)
}

// fusedRoles are the fused matrices whose scale is that of a matrix without one of its own.
var fusedRoles = map[string]string{
	"attn_q": "attn_qkv", "attn_k": "attn_qkv", "attn_v": "attn_qkv", "ffn_gate": "ffn_up",
	"ffn_gate_exps": "ffn_gate_up_exps", "ffn_up_exps": "ffn_gate_up_exps",
}

// scaleTensor returns the tensor that has a matrix's scale, nil if there is none.
func (ts *TensorSet) scaleTensor(role string, layer int) *store.Tensor {
	if !ts.Hyper.GGUF && !ts.packed { // the scales of a format are parts of its weights
		if t, ok := ts.Find(role+ScaleSuffix, layer, ""); ok && ts.family.Names(role+ScaleSuffix) {
			return &t
		}
		return nil
	}
	if _, own := ts.Find(role, layer, ".weight"); !own && fusedRoles[role] != "" {
		role = fusedRoles[role]
	}
	if t, ok := ts.Find(role, layer, ScaleSuffix); ok {
		return &t
	}
	return nil
}

// matrixScale returns the scale of a matrix of a GGUF file or a pack, 1 if it has none.
func (m *merged) matrixScale(t *store.Tensor) (float32, error) {
	role, ok := strings.CutSuffix(t.Name, ".weight")
	s, has := m.Source.Tensor(role + ScaleSuffix)
	if !ok || !has || Elems(s.Shape) != 1 || !strings.HasPrefix(role, "blk.") && role != "output" {
		return 1, nil
	}
	values, err := ReadFloats(m.Source, s)
	if err == nil && values[0] == 0 {
		err = fmt.Errorf("%w: the scale %s of the matrix that an adapter changes is 0: keep the adapter beside the weights", arch.ErrModel, s.Name)
	}
	if err != nil {
		return 0, err
	}
	return values[0], nil
}

// elementOf returns element i of a vector of n elements.
func (ts *TensorSet) elementOf(t *store.Tensor, i, n int) (TensorSlice, bool, error) {
	switch {
	case t == nil:
		return TensorSlice{}, false, nil
	case Elems(t.Shape) != n:
		return TensorSlice{}, false, fmt.Errorf("%w: %s: tensor %s has %d elements (shape %v), not %d: a scale for each matrix",
			arch.ErrModel, ts.Path, t.Name, Elems(t.Shape), t.Shape, n)
	case !t.Type.IsFloat():
		return TensorSlice{}, false, fmt.Errorf("%w: %s: tensor %s has the type %v, but scales are floats", arch.ErrModel, ts.Path, t.Name, t.Type)
	}
	size := int64(t.Type.BlockBytes())
	return TensorSlice{t.Type, 1, 1, []ByteRange{{*t, int64(i) * size, size}}}, true, nil
}
