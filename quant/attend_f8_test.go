package quant

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// runF8 computes the case on a path, with the values as 8-bit floats.
func (c *attendCase) runF8(path kernels) []float32 {
	previous := active
	active = path
	defer func() { active = previous }()
	w := append([]BlockWeights(nil), c.w...)
	state := append([]float32(nil), c.state...)
	SoftmaxBlocks(w, append([]float32(nil), c.scores...), c.scales, state[c.d:], c.stride, nil)
	WeightedSumBlockF8(state, c.stride, c.d, w, c.floats(), c.floats(), c.count)
	return state
}

// floats returns the case's values, reinterpreted as codes of 8-bit floats.
func (c *attendCase) floats() []uint8 {
	codes := make([]uint8, len(c.values))
	for i, v := range c.values {
		codes[i] = uint8(v)
	}
	return codes
}

// TestAttentionF8MatchesTwin checks that every path computes attention over 8-bit floats
// with the same bits as its portable twin.
func TestAttentionF8MatchesTwin(t *testing.T) {
	for _, path := range supportedPaths() {
		t.Run(path.name(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(23, 1))
			for _, d := range []int{1, 8, 16, 33, 64, 80, 96, 128, 256} {
				for n := range 10 {
					c := newAttendCase(rng, n+1, d)
					requireBits(t, c.runF8(portable{path.flavour()}), c.runF8(path), "d=%d n=%d", d, n+1)
				}
			}
		})
	}
}

// TestAttentionF8IsExact checks that attention over 8-bit floats equals a float64 sum of
// the quantized weights times the values, so only the quantization of the weights loses
// precision.
func TestAttentionF8IsExact(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(24, 1))
		const d = 80
		for range 20 {
			c := newAttendCase(rng, 1, d)
			SoftmaxBlocks(c.w, c.scores, c.scales, c.state[d:], c.stride, nil)
			before := append([]float32(nil), c.state...)
			WeightedSumBlockF8(c.state, c.stride, d, c.w, c.floats(), c.floats(), c.count)
			for i := range d {
				sum, size := 0.0, math.Abs(float64(before[i]))
				for j := range c.count {
					v := float64(c.w[0].Codes[j]) * float64(c.w[0].Scale) * float64(F8ToF32(c.floats()[j*d+i]))
					sum += v
					size += math.Abs(v)
				}
				require.InDelta(t, sum+float64(before[i])*float64(c.w[0].Decay), float64(c.state[i]), size*0x1p-19)
			}
		}
	})
}

// TestF8IsE4M3 checks every code against the definition of the format E4M3.
func TestF8IsE4M3(t *testing.T) {
	for code := range 128 {
		exponent, mantissa := code>>3, float64(code&7)/8
		want := math.Ldexp(1+mantissa, exponent-7)
		if exponent == 0 {
			want = math.Ldexp(mantissa, -6)
		}
		require.Equal(t, want/256, float64(F8ToF32(uint8(code))))
		require.Equal(t, -want/256, float64(F8ToF32(uint8(code|0x80))))
	}
	require.Equal(t, float32(f8Largest), F8ToF32(0x7E))
	require.True(t, math.Signbit(float64(F8ToF32(0x80))))
}

func BenchmarkAttendToFloats(b *testing.B) {
	rng := rand.New(rand.NewPCG(22, 1))
	for _, d := range []int{64, 128} {
		for _, n := range []int{1, 4, 32} {
			c := newAttendCase(rng, n, d)
			for i := range c.w {
				c.w[i].Attended = math.MaxUint64
			}
			SoftmaxBlocks(c.w, c.scores, c.scales, c.state[d:], c.stride, nil)
			values := c.floats()
			b.Run(fmt.Sprintf("d=%d/n=%d", d, n), func(b *testing.B) {
				for b.Loop() {
					WeightedSumBlockF8(c.state, c.stride, d, c.w, values, values, BlockTokens)
				}
			})
		}
	}
}

// TestHalfKeysWithLargeQueries checks that scores of 16-bit keys have the range and the
// precision of float32, for queries far beyond the range of 16 bits.
func TestHalfKeysWithLargeQueries(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(25, 1))
		const keys, d, queries = 17, 80, 5
		k, halves := randomFloats(rng, keys*d), make([]byte, 2*keys*d)
		for i := range k {
			k[i] *= 10_000
		}
		RoundF16(halves, k)
		for _, size := range []float32{1, 1e6, 1e30} {
			q, y := randomFloats(rng, queries*d), make([]float32, queries*keys)
			for i := range q {
				q[i] *= size
			}
			MulRows(y, keys, F16, halves, d, 0, keys, q, queries, NewScratch(d))
			for i, got := range y {
				var want, sum float64
				for c := range d {
					v := float64(k[i%keys*d+c]) * float64(q[i/keys*d+c])
					want += v
					sum += math.Abs(v)
				}
				// A 16-bit element has eleven significant bits.
				require.InDelta(t, want, float64(got), sum*0x1p-11)
			}
		}
	})
}
