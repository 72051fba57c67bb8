package quant

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestArgMaxReturnsTheFirstMaximum checks that ArgMax returns the same index as a scalar
// loop, for inputs with equal elements, NaNs and -Inf.
func TestArgMaxReturnsTheFirstMaximum(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(10, 1))
		for _, n := range []int{0, 1, 17, argMaxBlock - 1, argMaxBlock, 3*argMaxBlock + 5} {
			for _, values := range []int{1, 3, 1 << 20} {
				x := make([]float32, n)
				want := -1
				for i := range x {
					switch x[i] = float32(rng.IntN(values)) - float32(values)/2; rng.IntN(8) {
					case 0:
						x[i] = float32(math.NaN())
					case 1:
						x[i] = -inf32
					}
					if x[i] > -inf32 && (want < 0 || x[i] > x[want]) {
						want = i
					}
				}
				require.Equal(t, want, ArgMax(x), "%d elements of %d values", n, values)
			}
		}
		require.Equal(t, -1, ArgMax([]float32{-inf32, float32(math.NaN()), -inf32}))
	})
}

// TestAllFinite checks that AllFinite finds an infinity or NaN at any position.
func TestAllFinite(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		x := make([]float32, 100)
		for i := range x {
			x[i] = math.MaxFloat32 * float32(1-2*(i%2))
		}
		require.True(t, AllFinite(x))
		require.True(t, AllFinite(nil))
		for _, v := range []float32{inf32, -inf32, float32(math.NaN())} {
			for _, i := range []int{0, 57, 99} {
				kept := x[i]
				x[i] = v
				require.False(t, AllFinite(x), "%v at %d", v, i)
				x[i] = kept
			}
		}
	})
}
