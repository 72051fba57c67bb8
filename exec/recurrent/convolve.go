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

const (
	// BlockChannels is the number of channels whose kernel is arranged at a time, and a good number for a part of a layer.
	BlockChannels = 128
	// arrangedTaps is the number of taps whose factors are arranged at a time: those that most models have.
	arrangedTaps = 4
	// Factors is the size of the memory that Run arranges a kernel in.
	Factors = arrangedTaps * BlockChannels
)

// Run convolves channels lo to hi-1 of count tokens. now is the inputs of the taps-1 tokens before them, and next
// receives those that follow. The channels of a row are adjacent, so that the inner loops are over channels. factors
// is memory that Run may overwrite.
func (c *Convolution) Run(out, in Rows, next, now []float32 /* [taps-1, channels] */, lo, hi, count int, factors []float32 /* [Factors] */) {
	for from := lo; from < hi; from += BlockChannels {
		c.runBlock(out, in, now, from, min(from+BlockChannels, hi), count, factors)
	}
	keepInputs(next, now, in, c.Channels, lo, hi, count)
}

// runBlock convolves at most BlockChannels channels. Each output is the sum of the taps' products from the oldest on,
// and the bias; every operation is rounded.
func (c *Convolution) runBlock(out, in Rows, now []float32, lo, hi, count int, factors []float32) {
	for first := 0; first < c.Taps; first += arrangedTaps {
		taps := min(arrangedTaps, c.Taps-first)
		c.arrange(factors, lo, hi, first, taps)
		for t := range count {
			dst := out.Row(t)[lo:hi]
			if first == 0 {
				clear(dst)
			}
			for i := range taps {
				src := inputs(in, now, c.Channels, t-(c.Taps-1)+first+i, c.Taps)[lo:hi]
				quant.AddProduct(dst, src, factors[i*BlockChannels:])
			}
			if first+taps == c.Taps && c.Bias != nil {
				quant.Add(dst, c.Bias[lo:hi])
			}
		}
	}
}

// arrange writes the factors of some taps, channel by channel. A stored kernel cannot be arranged once: a layer's
// weights may be in a mapped file, or come from flash for each pass.
func (c *Convolution) arrange(factors []float32 /* [arrangedTaps, BlockChannels] */, lo, hi, first, taps int) {
	kernel := c.Kernel[lo*c.Taps : hi*c.Taps]
	if c.Taps == arrangedTaps {
		oldest, older, newer, newest := factors[:hi-lo], factors[BlockChannels:][:hi-lo], factors[2*BlockChannels:][:hi-lo], factors[3*BlockChannels:][:hi-lo]
		for ch := range oldest {
			k := kernel[arrangedTaps*ch : arrangedTaps*ch+arrangedTaps]
			oldest[ch], older[ch], newer[ch], newest[ch] = k[0], k[1], k[2], k[3]
		}
		return
	}
	for i := range taps {
		row := factors[i*BlockChannels:][:hi-lo]
		for ch := range row {
			row[ch] = kernel[ch*c.Taps+first+i]
		}
	}
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
