package weights

import "github.com/llmrun/llmrun/exec/modelfile"

// planExpertBiases plans the biases of a layer's experts as vectors of the layer, so that they stay in
// memory when the experts do not. inner is the width of an expert's inner vector.
func (ld *Loader) planExpertBiases(l int, w *LayerWeights, inner int) error {
	s := ld.Spec
	if !s.ExpertBias {
		return nil
	}
	for i := range w.Experts {
		e := &w.Experts[i]
		for _, b := range []struct {
			role string
			m    *Linear
			rows int
		}{{"ffn_gate", &e.Gate, inner}, {"ffn_up", &e.Up, inner}, {"ffn_down", &e.Down, s.Dim}} {
			slice, ok, err := ld.Tensors.ExpertBias(b.role+"_exps", l, i, s.Experts, b.rows)
			if err != nil {
				return err
			}
			if ok {
				name := modelfile.TensorName(modelfile.ExpertRole(b.role, i), l, ".bias")
				ld.places = append(ld.places, Placement{name: name, Slice: slice, Vector: &b.m.Bias})
			}
		}
	}
	return nil
}
