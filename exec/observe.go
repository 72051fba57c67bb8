package exec

import (
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
)

// Observer is called with each matmul before it runs: its matrix, how many rows its
// input has, and a function that returns one of them.
type Observer func(w *weights.Linear, rows int, row func(i int) []float32 /* [Cols] */)

// measurement is what measurements change of passes.
type measurement struct {
	observe Observer   // nil: no observer is set
	probe   planeProbe // see MeasurePlanes
}

// Observe makes the model call an observer before every matmul; nil ends that. It must not
// be called while a pass runs.
func (m *Model) Observe(o Observer) { m.observe = o }

// Matrices returns the matrices of all layers that quantization may change, by their
// names in GGUF files.
func (m *Model) Matrices() map[string]*weights.Linear {
	named := map[string]*weights.Linear{}
	for l := range m.weights.Layers {
		m.weights.Layers[l].Each(func(role string, w *weights.Linear) {
			if w.Present() {
				named[modelfile.TensorName(role, l, ".weight")] = w
			}
		})
	}
	return named
}
