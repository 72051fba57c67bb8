package weights

import "github.com/llmrun/llmrun/exec/modelfile"

// LayerMatrices returns the matrices of all layers that a Mix may quantize, by name,
// without loading them.
func LayerMatrices(f *modelfile.Files) (*Loader, map[string]*modelfile.TensorSlice, error) {
	return namedMatrices(f, func(kind layoutKind) bool { return kind == LayerLayout })
}

// AllMatrices returns the matrices of all layers, experts included, by name.
func AllMatrices(f *modelfile.Files) (map[string]*modelfile.TensorSlice, error) {
	_, named, err := namedMatrices(f, func(kind layoutKind) bool { return kind == LayerLayout || kind == expertLayout })
	return named, err
}

// namedMatrices returns the matrices of some layouts.
func namedMatrices(f *modelfile.Files, in func(layoutKind) bool) (*Loader, map[string]*modelfile.TensorSlice, error) {
	spec, err := f.Spec()
	if err != nil {
		return nil, nil, err
	}
	ld := &Loader{Tensors: f.TensorSet(), Spec: spec}
	layouts, err := ld.PlanAll(&Weights{Layers: make([]LayerWeights, len(spec.Layers))})
	if err != nil {
		return nil, nil, err
	}
	named := map[string]*modelfile.TensorSlice{}
	for i := range layouts {
		for j := range layouts[i].Places {
			if p := &layouts[i].Places[j]; p.Matrix != nil && in(layouts[i].Kind) {
				named[p.name] = &p.Slice
			}
		}
	}
	return ld, named, nil
}
