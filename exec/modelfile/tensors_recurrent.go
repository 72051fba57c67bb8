package modelfile

import (
	"fmt"

	"github.com/llmrun/llmrun/exec/arch"
)

// StateProjection is a projection of a layer with matrices, see arch.Recurrence.
type StateProjection int

// The projections.
const (
	StateChannels StateProjection = iota // inputs of the convolution
	StateGate
	StateStep
	StateValue // weights of the values, of delta nets
)

// StateRoles are their roles.
var StateRoles = [...]string{"ssm_qkv", "ssm_gate", "ssm_step", "ssm_value"}

// The roles of tensors that hold several projections.
const (
	fusedProjections = "ssm_in" // channels and gate; in Mamba-2 the steps too
	fusedGates       = "ssm_ba" // steps and weights of the values
)

// StateProjection returns a projection of a layer with matrices, from a tensor of its own or from one that holds several.
func (ts *TensorSet) StateProjection(p StateProjection, layer int, r *arch.Recurrence) (TensorSlice, error) {
	rows := [...]int{r.Channels(), r.Inner(), r.Heads, r.Heads}[p]
	if _, ok := ts.Find(StateRoles[p], layer, ".weight"); ok {
		return ts.Matrix(StateRoles[p], layer, rows, ts.Hyper.Dim)
	}
	fused, all, runs := fusedProjections, r.Inner()+r.Channels()+r.Heads, mambaRows(p, r)
	if r.Delta {
		fused, all, runs = deltaRows(p, r)
	}
	t, ok := ts.Find(fused, layer, ".weight")
	if !ok {
		return TensorSlice{}, ts.Missing(StateRoles[p], layer)
	}
	w, err := ts.allRows(t, all, ts.Hyper.Dim)
	if err != nil {
		return w, err
	}
	return w.selectRows(runs...), nil
}

// mambaRows returns the rows of a projection in the one of Mamba-2: the gate, the channels, the steps.
func mambaRows(p StateProjection, r *arch.Recurrence) [][2]int {
	return [][2]int{[...][2]int{{r.Inner(), r.Channels()}, {0, r.Inner()}, {r.Inner() + r.Channels(), r.Heads}, {}}[p]}
}

// deltaRows returns the tensor that holds a projection of a delta net, all its rows, and those of the projection. The
// tensors have for each key head its query, its key, its values and their gates; and its weights and steps.
func deltaRows(p StateProjection, r *arch.Recurrence) (fused string, all int, runs [][2]int) {
	heads := r.Heads / r.Groups
	if p >= StateStep {
		for g := range r.Groups {
			at := g * 2 * heads // the weights
			if p == StateStep {
				at += heads
			}
			runs = append(runs, [2]int{at, heads})
		}
		return fusedGates, 2 * r.Heads, runs
	}
	values := heads * r.Value
	width := 2*r.Key + 2*values
	take := func(from, n int) {
		for g := range r.Groups {
			runs = append(runs, [2]int{g*width + from, n})
		}
	}
	if p == StateGate {
		take(2*r.Key+values, values)
	} else {
		take(0, r.Key)
		take(r.Key, r.Key)
		take(2*r.Key, values)
	}
	return fusedProjections, r.Groups * width, runs
}

// QueryGateRole is the role of the gates that come with queries, where they are a tensor of their own.
const QueryGateRole = "attn_q_gate"

// GatedQuery returns the queries of a layer and what gates attention's output: one after the other for each head.
func (ts *TensorSet) GatedQuery(layer, heads, headDim int) (query, gate TensorSlice, err error) {
	role, rows := ProjectionRoles[projectQ], heads*headDim
	if ts.packed {
		if query, err = ts.Matrix(role, layer, rows, ts.Hyper.Dim); err == nil {
			gate, err = ts.Matrix(QueryGateRole, layer, rows, ts.Hyper.Dim)
		}
		return query, gate, err
	}
	all, err := ts.Matrix(role, layer, 2*rows, ts.Hyper.Dim)
	if err != nil {
		return query, gate, err
	}
	var runs [2][][2]int
	for h := range 2 * heads {
		runs[h%2] = append(runs[h%2], [2]int{h * headDim, headDim})
	}
	return all.selectRows(runs[0]...), all.selectRows(runs[1]...), nil
}

// stackedExpert returns one expert's matrix from a stacked tensor of a safetensors file, if there is one: that of all gate
// and up projections, or that of all others.
func (ts *TensorSet) stackedExpert(role string, layer, i, experts, rows, cols int) (TensorSlice, bool, error) {
	stack := "ffn_gate_up_exps"
	if role == "ffn_down_exps" {
		stack = "ffn_down_stack"
	}
	t, ok := ts.findStack(stack, layer)
	if !ok {
		return TensorSlice{}, false, nil
	}
	if role != "ffn_down_exps" {
		s, err := ts.fusedExpert(t, role, i, experts, rows, cols)
		return s, true, err
	}
	all, err := ts.stack(t, experts, rows, cols)
	if err != nil {
		return all, true, err
	}
	return all.selectRows([2]int{i * rows, rows}), true, nil
}

// MissingVector is Missing for a vector.
func (ts *TensorSet) MissingVector(role string, layer int, suffix string) error {
	return fmt.Errorf("%w: %s: tensor %s is missing", arch.ErrModel, ts.Path, ts.name(role, layer)+suffix)
}
