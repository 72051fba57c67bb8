package quant

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestChecksPassOnEveryPath checks that the kernel checks accept every path.
func TestChecksPassOnEveryPath(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		for _, d := range []int{1, 33, 64, 80, 128, 256} {
			require.NoError(t, CheckCodes(d), "%d", d)
			require.NoError(t, CheckFloats(d), "%d", d)
		}
	})
}

// Each broken path computes one operation with a small error.
type (
	brokenWeigh  struct{ kernels }
	brokenF8     struct{ kernels }
	brokenRound  struct{ kernels }
	brokenScores struct{ kernels }
)

func (k brokenWeigh) weightedSumBlock(o []float32, stride, d int, w []BlockWeights, values, next []int8, pairs int) {
	k.kernels.weightedSumBlock(o, stride, d, w, values, next, pairs)
	o[len(w)/2*stride+d-1] *= 1.0000001
}

func (k brokenF8) weightedSumF8(o []float32, stride, d int, w []BlockWeights, values, next []uint8, count int) {
	k.kernels.weightedSumF8(o, stride, d, w, values, next, count)
	o[len(w)/2*stride+d-1] *= 1.0000001
}

func (k brokenRound) quantizeKey8(dst []uint8, step int, x []float32, inverse float32) {
	k.kernels.quantizeKey8(dst, step, x, inverse*1.01)
}

func (k brokenScores) mulF32(y []float32, yStride int, w []float32, wStride, rows, cols int, x []float32, xStride, n int) {
	k.kernels.mulF32(y, yStride, w, wStride, rows, cols-1, x, xStride, n)
}

// TestChecksFindBrokenKernels checks that the kernel checks reject every broken path.
func TestChecksFindBrokenKernels(t *testing.T) {
	best := active
	cases := []struct {
		path   kernels
		check  func(d int) error
		kernel string
	}{
		{brokenWeigh{best}, CheckCodes, "weighted sum of 8-bit values"},
		{brokenF8{best}, CheckCodes, "weighted sum of 8-bit floats"},
		{brokenRound{best}, CheckCodes, "rounding of keys"},
		{brokenScores{best}, CheckFloats, "scores"},
	}
	for _, c := range cases {
		usePath(t, c.path)
		err := c.check(64)
		require.ErrorIs(t, err, ErrKernel)
		var e *KernelError
		require.ErrorAs(t, err, &e)
		require.Equal(t, KernelError{Path: best.name(), Kernel: c.kernel}, *e)
		require.ErrorContains(t, err, "LLMRUN_CPU=portable")
	}
}

func BenchmarkCheck(b *testing.B) {
	for b.Loop() {
		if CheckCodes(128) != nil || CheckFloats(128) != nil {
			b.Fatal("kernels differ")
		}
	}
}
