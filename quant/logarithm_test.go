package quant

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLog1p compares with package math over the range of float32, and pins the bits of some results, which are those of
// every processor.
func TestLog1p(t *testing.T) {
	require.Zero(t, Log1p(0))
	require.True(t, math.IsNaN(Log1p(math.NaN())))
	for x := 1e-38; x < 1e38; x *= 1.37 {
		require.InEpsilon(t, math.Log1p(x), Log1p(x), 1e-15, "%g", x)
	}
	for x, bits := range map[float64]uint64{
		1: 0x3fe62e42fefa39ee, 3: 0x3ff62e42fefa39ef, 0.1: 0x3fb8663f793c46c6, 1e-3: 0x3f5060354f8c3ebf, 12345: 0x4022d798c4a0e37e,
	} {
		require.Equal(t, bits, math.Float64bits(Log1p(x)), "%g is %#x", x, math.Float64bits(Log1p(x)))
	}
}
