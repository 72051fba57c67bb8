package modelfile

import (
	"strconv"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
)

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
		if layer, err := strconv.Atoi(number); err == nil && layer >= ts.Hyper.Layers+ts.Hyper.NextLayers {
			return ts.Hyper.FieldError(arch.KeyLayers, "%d layers, but the tensor %s belongs to layer %d; correct the field or download the model again",
				ts.Hyper.Layers, t.Name, layer)
		}
	}
	return nil
}
