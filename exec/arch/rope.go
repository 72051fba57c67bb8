package arch

import (
	"fmt"
	"math"
)

// RopeTable computes the angles by which pairs of a head's elements are rotated.
// Frequencies and their product with the position are float32, as in training.
type RopeTable struct {
	Dim  int       // rotated elements of a head, even
	Freq []float32 // [Dim/2] radians per position
	Gain float32   // scale of cosine and sine

	// LongFreq replaces Freq in longrope models for sequences longer than Switch tokens.
	// nil = none.
	LongFreq []float32 // [Dim/2]
	Switch   int
}

// Angles writes the cosines and sines of one position.
func (t *RopeTable) Angles(cos, sin []float32 /* [Dim/2] */, pos int, long bool) {
	freq := t.Freq
	if long && t.LongFreq != nil {
		freq = t.LongFreq
	}
	for i, f := range freq {
		s, c := math.Sincos(float64(float32(pos) * f))
		cos[i] = float32(c) * t.Gain
		sin[i] = float32(s) * t.Gain
	}
}

// Rotate rotates one head in place. interleave: the elements of a pair are adjacent.
func Rotate(head, cos, sin []float32, interleave bool) {
	half := len(cos)
	head = head[:len(head):len(head)] // a table that is wider than the head must not rotate the next one
	if interleave {
		for i := range half {
			a, b := head[2*i], head[2*i+1]
			head[2*i] = float32(a*cos[i]) - float32(b*sin[i])
			head[2*i+1] = float32(b*cos[i]) + float32(a*sin[i])
		}
		return
	}
	lo, hi := head[:half], head[half:2*half]
	for i := range half {
		a, b := lo[i], hi[i]
		lo[i] = float32(a*cos[i]) - float32(b*sin[i])
		hi[i] = float32(b*cos[i]) + float32(a*sin[i])
	}
}

// NewRopeTable computes the frequencies of a rotary table. dim is the number of rotated
// elements, context the model's longest sequence.
func NewRopeTable(r *RopeHyper, dim, context int) (RopeTable, error) {
	t := RopeTable{Dim: dim, Gain: 1}
	base, root := make([]float64, dim/2), r.Base
	if r.Alpha > 0 && dim > 2 {
		root *= math.Pow(r.Alpha, float64(dim)/float64(dim-2))
	}
	for i := range base {
		base[i] = 1 / math.Pow(root, float64(2*i)/float64(dim))
	}
	kind := r.Kind
	if r.Divisors != nil {
		if len(r.Divisors) != len(base) {
			return t, divisorsError(r.Divisors, base)
		}
		for i := range base {
			base[i] /= r.Divisors[i]
		}
		if kind == "llama3" || r.Short == nil && (kind == "longrope" || kind == "su") {
			kind = "" // they say what the divisors do
		}
	}
	switch kind {
	case "", "default", "none", "dynamic":
		// "dynamic" changes the base only beyond the trained context, where generation has
		// stopped.
		t.Freq = toFloat32(base)
	case "proportional":
		t.Freq = toFloat32(base)
		if r.Rotated > 0 {
			clear(t.Freq[min(r.Rotated/2, len(t.Freq)):])
		}
	case "linear":
		for i := range base {
			base[i] /= orDefault(r.Factor, 1)
		}
		t.Freq = toFloat32(base)
	case "llama3":
		t.Freq = toFloat32(llama3Freq(r, base, context))
	case "yarn":
		t.Freq, t.Gain = toFloat32(yarnFreq(r, base, dim, context)), yarnGain(r, context)
	case "longrope", "su":
		return t, t.longrope(r, base, context)
	default:
		return t, fmt.Errorf("%w: rope scaling %q", ErrUnsupported, r.Kind)
	}
	return t, nil
}

// applyDivisors sets the frequencies to base divided by divisors.
func (t *RopeTable) applyDivisors(base, divisors []float64) error {
	if len(divisors) != len(base) {
		return divisorsError(divisors, base)
	}
	out := make([]float64, len(base))
	for i := range out {
		out[i] = base[i] / divisors[i]
	}
	t.Freq = toFloat32(out)
	return nil
}

// divisorsError reports divisors that are not one for each frequency.
func divisorsError(divisors, base []float64) error {
	return fmt.Errorf("%w: %d rope factors for %d rotary frequencies", ErrModel, len(divisors), len(base))
}

// llama3Freq divides low frequencies by the factor, keeps high ones and interpolates
// between.
func llama3Freq(r *RopeHyper, base []float64, context int) []float64 {
	factor, lo, hi := orDefault(r.Factor, 8), orDefault(r.LowFreqFactor, 1), orDefault(r.HighFreqFactor, 4)
	original := orDefault(float64(r.OriginalContext), float64(context))
	out := make([]float64, len(base))
	for i, f := range base {
		wave := 2 * math.Pi / f
		switch {
		case wave > original/lo:
			out[i] = f / factor
		case wave < original/hi:
			out[i] = f
		default:
			smooth := (original/wave - lo) / (hi - lo)
			out[i] = (1-smooth)*f/factor + smooth*f
		}
	}
	return out
}

// yarnFreq divides the frequencies of dimensions that make few turns over the original context
// by the factor, and keeps those that make many.
func yarnFreq(r *RopeHyper, base []float64, dim, context int) []float64 {
	factor, original := r.contextScale(context)
	// turns returns the dimension whose pair makes n turns
	turns := func(n float64) float64 {
		return float64(dim) * math.Log(original/(n*2*math.Pi)) / (2 * math.Log(r.Base))
	}
	low, high := turns(orDefault(r.BetaFast, 32)), turns(orDefault(r.BetaSlow, 1))
	if !r.NoTruncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = math.Max(low, 0), math.Min(high, float64(dim-1))
	if low == high {
		high += 0.001 // keeps the ramp finite
	}
	out := make([]float64, len(base))
	for i, f := range base {
		ramp := math.Min(math.Max((float64(i)-low)/(high-low), 0), 1)
		out[i] = f/factor*ramp + f*(1-ramp)
	}
	return out
}

// contextScale returns the scaling of the context length, and the original length.
func (r *RopeHyper) contextScale(context int) (factor, original float64) {
	original = orDefault(float64(r.OriginalContext), float64(context))
	return orDefault(r.Factor, float64(context)/original), original
}

// yarnGain returns the scale of cosine and sine.
func yarnGain(r *RopeHyper, context int) float32 {
	if r.AttnFactor != 0 {
		return float32(r.AttnFactor)
	}
	factor, _ := r.contextScale(context)
	mscale := func(m float64) float64 {
		if factor > 1 {
			return 0.1*m*math.Log(factor) + 1
		}
		return 1
	}
	if r.MScale != 0 && r.MScaleAllDim != 0 {
		return float32(mscale(r.MScale) / mscale(r.MScaleAllDim))
	}
	return float32(mscale(1))
}

func (t *RopeTable) longrope(r *RopeHyper, base []float64, context int) error {
	long := RopeTable{}
	if err := t.applyDivisors(base, r.Short); err != nil {
		return fmt.Errorf("short factors: %w", err)
	}
	if err := long.applyDivisors(base, r.Long); err != nil {
		return fmt.Errorf("long factors: %w", err)
	}
	factor, original := r.contextScale(context)
	t.LongFreq, t.Switch = long.Freq, int(original)
	t.Gain = float32(orDefault(r.AttnFactor, 1))
	if r.AttnFactor == 0 && factor > 1 && original > 1 {
		t.Gain = float32(math.Sqrt(1 + math.Log(factor)/math.Log(original)))
	}
	return nil
}

func orDefault(v, fallback float64) float64 {
	if v == 0 {
		return fallback
	}
	return v
}

func toFloat32(v []float64) []float32 {
	out := make([]float32, len(v))
	for i := range v {
		out[i] = float32(v[i])
	}
	return out
}

func invSqrt(n int) float32 { return float32(1 / math.Sqrt(float64(n))) }
