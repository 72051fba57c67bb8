package exec

import (
	"math"
	"slices"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
)

// The arithmetic of the plain pass. Sums of many terms are float64, so that their order does not
// matter here.

// multiply returns x·wᵀ + bias.
func multiply(w *weights.Linear, x []float32 /* [Cols] */) []float32 {
	out := make([]float32, w.Rows)
	for row := range out {
		out[row] = dot(rowOfMatrix(&w.Matrix, row), x)
		if w.Bias != nil {
			out[row] += w.Bias[row]
		}
	}
	return out
}

func dot(a, b []float32) float32 {
	var sum float64
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return float32(sum)
}

// normalize is RMSNorm, or LayerNorm with a bias.
func normalize(n *arch.NormSpec, x []float32, g *weights.Gain) []float32 {
	var mean, squares float64
	if n.Layer {
		for _, v := range x {
			mean += float64(v) / float64(len(x))
		}
	}
	for _, v := range x {
		squares += (float64(v) - mean) * (float64(v) - mean) / float64(len(x))
	}
	scale := 1 / math.Sqrt(squares+float64(n.Eps))
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32((float64(v)-mean)*scale) * (g.Weight[i] + n.Offset)
		if g.Bias != nil {
			out[i] += g.Bias[i]
		}
	}
	return out
}

func softmax(x []float32) []float32 {
	top := float64(slices.Max(x))
	var total float64
	out := make([]float32, len(x))
	for i, v := range x {
		e := math.Exp(float64(v) - top)
		out[i] = float32(e)
		total += e
	}
	return times(out, float32(1/total))
}

// softCap maps values smoothly to the range from -limit to limit; 0 means no limit.
func softCap(x []float32, limit float32) []float32 {
	if limit == 0 {
		return x
	}
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = limit * float32(math.Tanh(float64(v/limit)))
	}
	return out
}

func activate(a arch.Activation, x float32) float32 {
	v := float64(x)
	switch a {
	case arch.GELUTanh:
		return float32(v / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))))
	case arch.GELUErf:
		return float32(v / 2 * (1 + math.Erf(v/math.Sqrt2)))
	}
	return x * sigmoid(x)
}

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

// turn rotates a point by an angle.
func turn(a, b, cos, sin float32) (float32, float32) { return a*cos - b*sin, b*cos + a*sin }

// clamp cuts values off at -limit and limit; 0 means no limit.
func clamp(x []float32, limit float32) []float32 {
	out := slices.Clone(x)
	for i, v := range out {
		if limit > 0 {
			out[i] = min(max(v, -limit), limit)
		}
	}
	return out
}

func times(x []float32, by float32) []float32 {
	out := make([]float32, len(x))
	addScaled(out, x, by)
	return out
}

func sum(a, b []float32) []float32 {
	out := slices.Clone(a)
	addScaled(out, b, 1)
	return out
}

func addScaled(dst, x []float32, by float32) {
	for i, v := range x {
		dst[i] += by * v
	}
}

// largest returns the indices of the n largest values, the lower index first among equals.
func largest(x []float32, n int) []int {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case x[a] > x[b]:
			return -1
		case x[a] < x[b]:
			return 1
		}
		return 0
	})
	return order[:n]
}

// deviation returns the standard deviation of values.
func deviation(x []float32) float64 {
	var mean, squares float64
	for _, v := range x {
		mean += float64(v) / float64(len(x))
	}
	for _, v := range x {
		squares += (float64(v) - mean) * (float64(v) - mean) / float64(len(x))
	}
	return math.Sqrt(squares)
}
