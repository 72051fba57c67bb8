package recurrent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConvolutionOfOneChannel checks the convolution by hand: its state between passes, and the bias.
func TestConvolutionOfOneChannel(t *testing.T) {
	in, out := Rows{[]float32{2, 6, 20}, 1}, Rows{make([]float32, 3), 1}
	now, next := []float32{7, 9}, []float32{0, 0}
	c := Convolution{Kernel: []float32{1, 10, 100}, Bias: []float32{0.5}, Channels: 1, Taps: 3}
	c.Run(out, in, next, now, 0, 1, 3)
	require.Equal(t, []float32{7 + 90 + 200 + 0.5, 9 + 20 + 600 + 0.5, 2 + 60 + 2000 + 0.5}, out.Data)
	require.Equal(t, []float32{6, 20}, next)

	c.Bias = nil
	c.Run(out, in, next, now, 0, 1, 1)
	require.Equal(t, float32(7+90+200), out.Data[0])
	require.Equal(t, []float32{9, 2}, next, "the oldest input is still one before the pass")
}
