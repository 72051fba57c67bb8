package calib

import "github.com/llmrun/llmrun/exec/weights"

// InputPowers sums the squares of matmul inputs.
type InputPowers struct {
	Sums map[*weights.Linear]*InputPower
}

// InputPower is the sum of squares of each input channel of one matrix.
type InputPower struct {
	Name string
	Sum  []float32 // [cols]
	Rows int
}

// Observe adds the input rows of a matmul.
func (o *InputPowers) Observe(w *weights.Linear, rows int, input func(int) []float32) {
	p := o.Sums[w]
	if p == nil {
		return
	}
	if p.Sum == nil {
		p.Sum = make([]float32, w.Cols)
	}
	for row := range rows {
		for i, v := range input(row) {
			p.Sum[i] += float32(v * v)
		}
	}
	p.Rows += rows
}
