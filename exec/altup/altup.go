// Package altup has the arithmetic of alternating updates and of sparse activations, row by row; see
// arch.AltUp. No result depends on how many rows a pass has.
package altup

import (
	"math"

	"github.com/llmrun/llmrun/quant"
)

// MaxStreams limits the streams of a model.
const MaxStreams = 8

// Streams are a token's streams.
type Streams [MaxStreams][]float32 // [count][Dim]

// Weights are those of a layer.
type Weights struct {
	Router  []float32 // [streams, Dim]
	Predict []float32 // [streams·streams, streams]
	Correct []float32 // [streams, streams]
	Scale   []float32 // [Dim] of the active stream, as the layer's own embedding reads it; nil: 1
}

// modalities returns what the router says of a row, which is normalized.
func (w *Weights) modalities(count int, normed []float32 /* [Dim] */) (m [MaxStreams]float32) {
	dim := len(normed)
	for i := range count {
		m[i] = quant.Tanh32(quant.Dot(w.Router[i*dim:(i+1)*dim], normed) / float32(dim))
	}
	return m
}

// coefficient returns row i of a matrix times what the router says.
func coefficient(matrix []float32, i, count int, m *[MaxStreams]float32) (sum float32) {
	for j, v := range matrix[i*count : (i+1)*count] {
		sum += float32(v * m[j])
	}
	return sum
}

// PredictRow replaces the streams of a row by what the layer will make of them, as a sum of all of them says.
// normed is the active stream, normalized, and is overwritten.
func (w *Weights) PredictRow(s *Streams, count int, normed []float32 /* [Dim] */) {
	m := w.modalities(count, normed)
	var factors [MaxStreams][MaxStreams]float32
	for i := range count {
		for j := range count {
			factors[i][j] = coefficient(w.Predict, i*count+j, count, &m)
		}
	}
	block := len(normed) / count // elements of all streams, whose sums are in normed
	for lo := 0; lo < len(normed); lo += block {
		hi := min(lo+block, len(normed))
		for i := range count {
			sum := normed[i*block:][:hi-lo]
			clear(sum)
			for j := range count {
				quant.AddScaled(sum, s[j][lo:hi], factors[i][j])
			}
		}
		for i := range count {
			quant.Add(s[i][lo:hi], normed[i*block:][:hi-lo])
		}
	}
}

// CorrectRow adds to each predicted stream its part of what the layer computed beyond the prediction of the
// active one. computed becomes the corrected active stream, scaled; normed is computed, normalized, and is
// overwritten.
func (w *Weights) CorrectRow(s *Streams, count, active int, computed, normed []float32 /* [Dim] */) {
	m := w.modalities(count, normed)
	for d, v := range computed {
		normed[d] = v - s[active][d]
	}
	for i := range count {
		quant.AddScaled(s[i], normed, 1+coefficient(w.Correct, i, count, &m))
	}
	copy(computed, s[active])
	if w.Scale != nil {
		quant.Mul(computed[:len(w.Scale)], w.Scale)
	}
}

// leastSquare bounds the mean square by which Match divides.
const leastSquare = 1e-5

// Match scales a vector to the magnitude of another.
func Match(x, like []float32 /* [Dim] */) {
	n := float32(len(x))
	want := math.Sqrt(float64(quant.SumSquares(like) / n))
	have := math.Sqrt(float64(max(quant.SumSquares(x)/n, leastSquare)))
	quant.Scale(x, float32(want/have))
}

// Sparsify subtracts from a vector what lies so many standard deviations above its mean, and replaces what
// is negative then by 0.
func Sparsify(x []float32, deviations float32) {
	sum, squares := 0.0, 0.0
	for _, v := range x {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	mean := sum / float64(len(x))
	spread := math.Sqrt(max(0, squares/float64(len(x))-mean*mean))
	cutoff := float32(mean + float64(deviations)*spread)
	for i, v := range x {
		x[i] = max(0, v-cutoff)
	}
}
