package recurrent

import (
	"math"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/quant"
)

// keyNormEps is added to the sum of the squares of a delta net's keys and queries.
const keyNormEps = 1e-6

// Weights are the vectors of a layer with matrices.
type Weights struct {
	Kernel, Bias []float32 // of the convolution: [channels, taps], [channels]
	Decay        []float32 // [heads] how fast a matrix decays, below 0; or the logarithms of that, see arch.Recurrence
	StepBias     []float32 // [heads]
	Skip         []float32 // [heads] how much of its value a head's output has besides; nil for delta nets
	Norm         []float32 // of the output: [value] of a delta net, else [inner]
}

// NormKeys normalizes the keys and the queries of a token of a delta net, and scales its queries.
func NormKeys(r *arch.Recurrence, channels []float32) {
	if !r.Delta {
		return
	}
	scale := float32(1 / math.Sqrt(float64(r.Key)))
	for i := range 2 * r.Groups { // queries, then keys
		x := channels[i*r.Key : (i+1)*r.Key]
		factor := 1 / float32(math.Sqrt(float64(quant.SumSquares(x)+keyNormEps)))
		if i < r.Groups {
			factor *= scale
		}
		quant.Scale(x, factor)
	}
}

// Gate turns the steps of a token into the decay of each head, and sets the weight of its value: the step itself in
// Mamba-2, the sigmoid of what is there in delta nets.
func Gate(r *arch.Recurrence, w *Weights, steps, weights []float32 /* [heads] */) {
	for h, x := range steps[:r.Heads] {
		step, rate := softplus(x+w.StepBias[h]), w.Decay[h]
		if r.LogDecay {
			rate = -quant.Exp32(rate)
		}
		steps[h] = quant.Exp32(float32(step * rate))
		if r.Delta {
			step = quant.Sigmoid32(weights[h])
		}
		weights[h] = step
	}
}

// softplus is log(1 + exp(x)), and x where both are equal in float32: 0 for less than -87.3, where exp(x) is below float32.
func softplus(x float32) float32 {
	if x > 20 {
		return x
	}
	return float32(quant.Log1p(float64(quant.Exp32(x))))
}

// ScaleParts multiplies the projections of a token of Mamba-2.
func ScaleParts(r *arch.Recurrence, channels, gate, steps []float32) {
	quant.Scale(gate[:r.Inner()], r.InScales[0])
	x, keys := channels[:r.Inner()], channels[r.Inner():r.Channels()]
	quant.Scale(x, r.InScales[1])
	half := len(keys) / 2
	quant.Scale(keys[:half], r.InScales[2])
	quant.Scale(keys[half:], r.InScales[3])
	quant.Scale(steps[:r.Heads], r.InScales[4])
}

// Finish gates the output of a token by z, which it changes, and normalizes it before or after that.
func Finish(r *arch.Recurrence, w *Weights, eps float32, out, z []float32 /* [inner] */) {
	if r.NormFirst {
		normParts(r, w, eps, out)
	}
	quant.SiluMul(z, z, out)
	copy(out, z)
	if !r.NormFirst {
		normParts(r, w, eps, out)
	}
}

// normParts normalizes the parts of an output, each by itself.
func normParts(r *arch.Recurrence, w *Weights, eps float32, out []float32 /* [inner] */) {
	if r.NormGroups == 0 {
		return
	}
	width := r.Inner() / r.NormGroups
	for i := range r.NormGroups {
		gain := w.Norm
		if len(gain) > width {
			gain = gain[i*width:]
		}
		x := out[i*width : (i+1)*width]
		quant.RMSNorm(x, x, gain[:width], eps, 0)
	}
}
