package recurrent

import "github.com/llmrun/llmrun/quant"

// Rows are vectors at equal distances.
type Rows struct {
	Data   []float32
	Stride int
}

// Row returns the floats of a row from its first on.
func (r Rows) Row(i int) []float32 { return r.Data[i*r.Stride:] }

// Convolution is a causal convolution of each channel over the last tokens.
type Convolution struct {
	Kernel   []float32 // [channels, taps], oldest tap first
	Bias     []float32 // [channels], or nil
	Channels int
	Taps     int
}

// Run convolves channels lo to hi-1 of count tokens. now is the inputs of the taps-1 tokens before them, and next
// receives those that follow. The channels of a row are adjacent, so that the inner loops are over channels.
func (c *Convolution) Run(out, in Rows, next, now []float32 /* [taps-1, channels] */, lo, hi, count int) {
	for t := range count {
		dst := out.Row(t)[lo:hi]
		clear(dst)
		for i := range c.Taps {
			src := inputs(in, now, c.Channels, t-(c.Taps-1)+i, c.Taps)[lo:hi]
			kernel := c.Kernel[lo*c.Taps+i:]
			for ch, v := range src {
				dst[ch] += float32(kernel[ch*c.Taps] * v)
			}
		}
		if c.Bias != nil {
			quant.Add(dst, c.Bias[lo:hi])
		}
	}
	keepInputs(next, now, in, c.Channels, lo, hi, count)
}

// inputs returns the inputs of token t of a pass. A negative t is a token before the pass.
func inputs(in Rows, now []float32, channels, t, taps int) []float32 {
	if t < 0 {
		return now[(taps-1+t)*channels:][:channels]
	}
	return in.Row(t)[:channels]
}

// keepInputs stores the inputs of the last tokens of a pass, channels lo to hi-1.
func keepInputs(next, now []float32 /* [taps-1, channels] */, in Rows, channels, lo, hi, count int) {
	kept := len(next) / channels
	for i := range kept {
		src := inputs(in, now, channels, count-kept+i, kept+1)
		copy(next[i*channels+lo:i*channels+hi], src[lo:hi])
	}
}

// Record copies count rows of some floats into the steps of a layer, from float at of each step on.
func Record(steps []float32, step, at int, from Rows, lo, hi, count int) {
	for t := range count {
		copy(steps[t*step+at+lo:t*step+at+hi], from.Row(t)[lo:hi])
	}
}
