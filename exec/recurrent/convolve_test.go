package recurrent

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConvolutionOfOneChannel checks the convolution by hand: its state between passes, and the bias.
func TestConvolutionOfOneChannel(t *testing.T) {
	in, out := Rows{[]float32{2, 6, 20}, 1}, Rows{make([]float32, 3), 1}
	now, next := []float32{7, 9}, []float32{0, 0}
	c := Convolution{Kernel: []float32{1, 10, 100}, Bias: []float32{0.5}, Channels: 1, Taps: 3}
	factors := make([]float32, Factors)
	c.Run(out, in, next, now, 0, 1, 3, factors)
	require.Equal(t, []float32{7 + 90 + 200 + 0.5, 9 + 20 + 600 + 0.5, 2 + 60 + 2000 + 0.5}, out.Data)
	require.Equal(t, []float32{6, 20}, next)

	c.Bias = nil
	c.Run(out, in, next, now, 0, 1, 1, factors)
	require.Equal(t, float32(7+90+200), out.Data[0])
	require.Equal(t, []float32{9, 2}, next, "the oldest input is still one before the pass")
}

// TestConvolutionEqualsItsDefinition checks the bits of convolutions with all numbers of taps, of whole layers and of
// parts of them, in passes of several lengths.
func TestConvolutionEqualsItsDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	random := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	const tokens = 7
	for taps := 1; taps <= 9; taps++ {
		for _, channels := range []int{1, 5, BlockChannels, 2*BlockChannels + 19} {
			c := Convolution{Kernel: random(channels * taps), Bias: random(channels), Channels: channels, Taps: taps}
			if taps%2 == 0 {
				c.Bias = nil
			}
			all := random((taps - 1 + tokens) * channels) // those before the first pass too
			want := make([]float32, tokens*channels)
			for i := range want {
				token, channel := i/channels, i%channels
				for tap := range taps {
					want[i] += float32(c.Kernel[channel*taps+tap] * all[(token+tap)*channels+channel])
				}
				if c.Bias != nil {
					want[i] += c.Bias[channel]
				}
			}
			for _, pass := range []int{1, 2, tokens} {
				now, got := slices.Clone(all[:(taps-1)*channels]), make([]float32, tokens*channels)
				in := all[(taps-1)*channels:]
				for first := 0; first < tokens; first += pass {
					count, next := min(pass, tokens-first), make([]float32, len(now))
					for lo := 0; lo < channels; lo += 100 {
						c.Run(Rows{got[first*channels:], channels}, Rows{in[first*channels:], channels}, next, now, lo, min(lo+100, channels), count, make([]float32, Factors))
					}
					now = next
				}
				require.Equal(t, want, got, "%d taps, %d channels, %d tokens a pass", taps, channels, pass)
			}
		}
	}
}
