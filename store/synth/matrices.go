package synth

import (
	"fmt"
	"strings"

	"github.com/llmrun/llmrun/quant"
)

// Matrix is a weight matrix of a model.
type Matrix struct {
	Name       string // name without the layer, such as "attn_q"
	Type       quant.Type
	Rows, Cols int
	Experts    int // number of matrices; 0 for a matrix that is not an expert
}

// Matrices returns the matrices of all layers and the output head in file order.
func (s Shape) Matrices(mixName string) ([]Matrix, error) {
	m, ok := findMix(mixName)
	if !ok {
		return nil, fmt.Errorf("%w: there is no mix %q", ErrOptions, mixName)
	}
	var list []Matrix
	for _, t := range s.tensors() {
		if len(t.shape) < 2 || t.role == roleEmbed || t.fill == fillBias {
			continue
		}
		parts := strings.Split(t.name, ".")
		matrix := Matrix{Name: parts[len(parts)-2], Type: m.typeOf(&t, s.Layers), Cols: t.shape[len(t.shape)-1], Rows: t.shape[len(t.shape)-2]}
		if len(t.shape) == 3 {
			matrix.Experts = t.shape[0]
		}
		if t.role == roleOutput {
			matrix.Name = "output"
		}
		list = append(list, matrix)
	}
	return list, nil
}
