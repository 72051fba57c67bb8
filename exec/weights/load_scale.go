package weights

import (
	"strings"

	"github.com/llmrun/llmrun/exec/modelfile"
)

// routerRole is the one matrix whose .scale has another meaning: a factor for each input.
const routerRole = "ffn_gate_inp"

// planScale plans the optional scale of a matrix.
func (ld *Loader) planScale(m *Linear, role string, layer int) error {
	if role == routerRole {
		return nil
	}
	s, ok, err := ld.Tensors.Scale(role, layer)
	if ok {
		ld.places = append(ld.places, scalePlacement(m, role, layer, s))
	}
	return err
}

// appendExpertScales plans the optional scales of expert i among the places of its layer, which stay in
// memory when the expert does not.
func (ld *Loader) appendExpertScales(places []Placement, e *MLP, layer, i int) ([]Placement, error) {
	for _, m := range []struct {
		role string
		w    *Linear
	}{{"ffn_up", &e.Up}, {"ffn_gate", &e.Gate}, {"ffn_down", &e.Down}} {
		single := modelfile.ExpertRole(m.role, i)
		s, ok, err := ld.Tensors.ExpertScale(m.role+"_exps", single, layer, i, ld.Spec.Experts)
		if err != nil {
			return nil, err
		}
		if ok {
			places = append(places, scalePlacement(m.w, single, layer, s))
		}
	}
	return places, nil
}

func scalePlacement(m *Linear, role string, layer int, s modelfile.TensorSlice) Placement {
	return Placement{name: modelfile.TensorName(role, layer, modelfile.ScaleSuffix), Slice: s, Vector: &m.Scale}
}

// HasScales reports whether a matrix of the layouts has a scale.
func HasScales(layouts []Layout) bool {
	for i := range layouts {
		for j := range layouts[i].Places {
			if strings.HasSuffix(layouts[i].Places[j].name, modelfile.ScaleSuffix) {
				return true
			}
		}
	}
	return false
}
