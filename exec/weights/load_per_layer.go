package weights

import (
	"fmt"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
)

// planTable plans the layers' own embeddings of all tokens. Like an embedding that is not the output
// matrix, the table has a layout of its own: with a plan, its rows stay on flash.
func (ld *Loader) planTable(w *Weights) (Layout, error) {
	s := ld.Spec
	ld.places = nil
	table, err := ld.Tensors.Matrix("per_layer_token_embd", -1, 0, len(s.Layers)*s.PerLayer)
	if err := ld.planMatrix(&w.Table.Matrix, "per_layer_token_embd", -1, table, err); err != nil {
		return Layout{}, err
	}
	if n := table.Type.BlockElems(); s.PerLayer%n != 0 {
		return Layout{}, fmt.Errorf("%w: %s: tensor per_layer_token_embd.weight is %s, whose blocks of %d elements do not divide the %d of a layer",
			arch.ErrUnsupported, ld.Tensors.Path, table.Type, n, s.PerLayer)
	}
	ld.places[0].tile = false
	l := Layout{Name: "per-layer embeddings", Kind: TableLayout, Places: ld.places}
	ld.places = nil
	return l, nil
}

// planPerLayer plans the weights that apply a layer's own embedding, behind those of the MLP. The
// model's files have the projections of all layers in one matrix.
func (ld *Loader) planPerLayer(l int, w *LayerWeights) error {
	s := ld.Spec
	if s.PerLayer > 0 {
		all, err := ld.Tensors.LayerRows("per_layer_model_proj", l, len(s.Layers), s.PerLayer, s.Dim)
		if err := ld.planMatrix(&w.PerLayer.Model.Matrix, "per_layer_model_proj", l, all, err); err != nil {
			return err
		}
		if err := ld.planLinear(&w.PerLayer.Gate, "inp_gate", l, s.PerLayer, s.Dim); err != nil {
			return err
		}
		if err := ld.planLinear(&w.PerLayer.Out, "proj", l, s.Dim, s.PerLayer); err != nil {
			return err
		}
		if err := ld.planGain(&w.PerLayer.PostNorm, "post_norm", l, s.Dim); err != nil {
			return err
		}
	}
	if s.LayerScale {
		if err := ld.planLayerScale(l, w); err != nil {
			return err
		}
	}
	return ld.planJoin(l, w)
}

// planBeside plans experts with a dense MLP beside them.
func (ld *Loader) planBeside(l int, w *LayerWeights) error {
	if err := ld.planMLP(l, w); err != nil {
		return err
	}
	b := &w.Beside
	if _, ok := ld.Tensors.Find("ffn_gate_inp.scale", l, ""); !ok {
		return ld.Tensors.Missing("ffn_gate_inp.scale", l)
	}
	if err := ld.planVector(&b.Router.Weight, "ffn_gate_inp.scale", l, "", ld.Spec.Dim); err != nil {
		return err
	}
	for _, n := range []struct {
		role string
		g    *Gain
	}{{"post_ffw_norm_1", &b.DenseOutput}, {"pre_ffw_norm_2", &b.Experts}, {"post_ffw_norm_2", &b.ExpertsOutput}} {
		if err := ld.planGain(n.g, n.role, l, ld.Spec.Dim); err != nil {
			return err
		}
	}
	return ld.planExperts(l, w)
}

// planLayerScale plans the optional scale of a layer's output.
func (ld *Loader) planLayerScale(l int, w *LayerWeights) error {
	_, err := ld.findBare(&w.Scale, "layer_output_scale", l, 1)
	return err
}

// planBare plans a required vector that safetensors files name without a suffix.
func (ld *Loader) planBare(v *[]float32, role string, l, n int) error {
	if ok, err := ld.findBare(v, role, l, n); ok || err != nil {
		return err
	}
	return ld.Tensors.MissingVector(role, l, "")
}

// findBare plans an optional vector that safetensors files name without a suffix.
func (ld *Loader) findBare(v *[]float32, role string, l, n int) (bool, error) {
	for _, suffix := range []string{".weight", ""} {
		s, ok, err := ld.Tensors.Vector(role, l, suffix, n)
		if err != nil {
			return false, err
		}
		if ok {
			ld.places = append(ld.places, Placement{name: modelfile.TensorName(role, l, ".weight"), Slice: s, Vector: v})
			return true, nil
		}
	}
	return false, nil
}

// EachStream calls do with every matrix of several residual streams, and of the second residual path.
func (w *LayerWeights) EachStream(do func(role string, w *Linear)) {
	a := &w.AltUp
	for i := range a.In {
		do(modelfile.ExpertRole(streamsIn, i), &a.In[i])
	}
	do("laurel_l", &a.Left)
	do("laurel_r", &a.Right)
	for i := range a.Out {
		do(modelfile.ExpertRole(streamsOut, i), &a.Out[i])
	}
}

// The roles of the matrices that make streams and join them.
const streamsIn, streamsOut = "altup_proj", "altup_unembd_proj"

// planStreams plans what a layer does with several residual streams before attention.
func (ld *Loader) planStreams(l int, w *LayerWeights) error {
	s, a := ld.Spec, &w.AltUp
	if s.AltUp.Streams == 0 {
		return nil
	}
	if l == 0 {
		if err := ld.planStack(&a.In, streamsIn, l); err != nil {
			return err
		}
	}
	n := s.AltUp.Streams
	if err := ld.planGain(&a.RouterNorm, "altup_router_norm", l, s.Dim); err != nil {
		return err
	}
	for _, v := range []struct {
		to   *[]float32
		role string
		n    int
	}{{&a.Router, "altup_router", n * s.Dim}, {&a.Predict, "altup_predict_coef", n * n * n}, {&a.Correct, "altup_correct_coef", n * n}} {
		if err := ld.planRequired(v.to, v.role, l, v.n); err != nil {
			return err
		}
	}
	if s.AltUp.Unscaled {
		return nil
	}
	return ld.planBare(&a.Scale, "altup_correct_scale", l, s.Dim)
}

// planJoin plans what joins the streams behind the last layer.
func (ld *Loader) planJoin(l int, w *LayerWeights) error {
	if ld.Spec.AltUp.Streams == 0 || l != len(ld.Spec.Layers)-1 {
		return nil
	}
	return ld.planStack(&w.AltUp.Out, streamsOut, l)
}

// planStack plans the matrices of all streams but the active one. Files have them outside of the layers; here
// and in packs they belong to the layer that uses them.
func (ld *Loader) planStack(to *[]Linear, role string, l int) error {
	n, from := ld.Spec.AltUp.Streams-1, ld.Tensors.OutsideLayers(l)
	*to = make([]Linear, n)
	for i := range *to {
		m, err := ld.Tensors.Expert(role, from, i, n, ld.Spec.Dim, ld.Spec.Dim)
		if err := ld.planMatrix(&(*to)[i].Matrix, modelfile.ExpertRole(role, i), l, m, err); err != nil {
			return err
		}
	}
	return nil
}

// planLeft plans the first matrix of the second residual path, which reads what attention reads.
func (ld *Loader) planLeft(l int, w *LayerWeights) error {
	if ld.Spec.LaurelRank == 0 {
		return nil
	}
	return ld.planLinear(&w.AltUp.Left, "laurel_l", l, ld.Spec.LaurelRank, ld.Spec.Dim)
}

// planRight plans the rest of the second residual path, which is computed with attention's output.
func (ld *Loader) planRight(l int, w *LayerWeights) error {
	if ld.Spec.LaurelRank == 0 {
		return nil
	}
	if err := ld.planLinear(&w.AltUp.Right, "laurel_r", l, ld.Spec.Dim, ld.Spec.LaurelRank); err != nil {
		return err
	}
	return ld.planGain(&w.AltUp.LaurelNorm, "laurel_post_norm", l, ld.Spec.Dim)
}
