package quant

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// attendCase is the input of attention over one block for several queries.
type attendCase struct {
	n, d, stride   int
	w              []BlockWeights
	scores, scales []float32
	state          []float32 // [n, stride] outputs, the maximum score, the sum
	values         []int8
	count          int
}

// newAttendCase returns a random case. Some queries attend to all tokens, others to a
// part of them or to none.
func newAttendCase(rng *rand.Rand, n, d int) *attendCase {
	c := &attendCase{n: n, d: d, stride: d + 3, w: make([]BlockWeights, n), count: 1 + rng.IntN(BlockTokens)}
	c.scores, c.scales = randomFloats(rng, n*BlockTokens), randomFloats(rng, BlockTokens)
	for i := range c.scores {
		c.scores[i] *= 8
	}
	for i := range c.scales {
		c.scales[i] = float32(math.Abs(float64(c.scales[i])))
	}
	c.state = randomFloats(rng, n*c.stride)
	for i := range n {
		switch rng.IntN(4) {
		case 0:
			c.count = BlockTokens
			c.w[i].Attended = math.MaxUint64
		case 1:
			c.w[i].Attended = 0
		default:
			c.w[i].Attended = rng.Uint64()
		}
		c.state[i*c.stride+d] = float32(rng.IntN(40) - 20)
		c.state[i*c.stride+d+1] = 1 + rng.Float32()
		if rng.IntN(3) == 0 {
			clear(c.state[i*c.stride:][:d+2])
			c.state[i*c.stride+d] = -inf32
		}
	}
	for i := range c.w {
		c.w[i].Attended &= math.MaxUint64 >> (BlockTokens - c.count)
	}
	for j := c.count; j < BlockTokens; j++ { // unused elements are arbitrary
		c.scores[j], c.scales[j] = float32(math.NaN()), inf32
	}
	c.values = make([]int8, BlockTokens*d)
	for i := range c.values {
		c.values[i] = int8(rng.Uint32())
	}
	return c
}

// run computes the case on a path and returns the weights and the state. It does not
// change the case.
func (c *attendCase) run(path kernels) ([]BlockWeights, []float32) {
	previous := active
	active = path
	defer func() { active = previous }()
	w := append([]BlockWeights(nil), c.w...)
	state := append([]float32(nil), c.state...)
	SoftmaxBlocks(w, append([]float32(nil), c.scores...), c.scales, state[c.d:], c.stride, nil)
	WeightedSumBlock(state, c.stride, c.d, w, c.values, c.values, c.count)
	for i := range w {
		clear(w[i].floats[:])
	}
	return w, state
}

// TestAttentionMatchesTwin checks that every path computes attention with the same bits as
// its portable twin.
func TestAttentionMatchesTwin(t *testing.T) {
	for _, path := range supportedPaths() {
		t.Run(path.name(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(20, 1))
			for _, d := range []int{1, 8, 16, 33, 64, 80, 96, 128, 256} {
				for n := range 10 {
					c := newAttendCase(rng, n+1, d)
					wantW, want := c.run(portable{path.flavour()})
					gotW, got := c.run(path)
					require.Equal(t, wantW, gotW, "d=%d n=%d", d, n+1)
					requireBits(t, want, got, "d=%d n=%d", d, n+1)
				}
			}
		})
	}
}

// TestAttentionIsClose checks that attention over several blocks is close to attention in
// float64.
func TestAttentionIsClose(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(21, 1))
		const blocks, d = 5, 16
		state := make([]float32, d+2)
		state[d] = -inf32
		var sum, largest float64
		out := make([]float64, d)
		for b := range blocks {
			c := newAttendCase(rng, 1, d)
			c.w[0].Attended |= 1 << b
			c.scores[b], c.scales[b] = float32(b), 1
			for j := range BlockTokens {
				if c.w[0].Attended>>j&1 == 0 {
					continue
				}
				weight := math.Exp(float64(c.scores[j]))
				sum += weight
				for i := range d {
					v := float64(c.values[j/2*2*d+2*i+j%2]) * float64(c.scales[j])
					out[i] += weight * v
					largest = max(largest, math.Abs(v))
				}
			}
			SoftmaxBlocks(c.w, c.scores, c.scales, state[d:], d+2, nil)
			WeightedSumBlock(state, d+2, d, c.w, c.values, c.values, BlockTokens)
		}
		for i := range d {
			// The error of each token's weight is at most half a code.
			bound := largest * BlockTokens * blocks * 0.51 / maxWeight
			require.InDelta(t, out[i]/sum, float64(state[i]/state[d+1]), bound)
		}
	})
}

// TestLargeScoresDoNotOverflow checks that attention is finite and correct for scores of
// any size, because the kernels subtract the maximum before the exponential.
func TestLargeScoresDoNotOverflow(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		for _, size := range []float32{100, 1e4, 1e10, 3e38} {
			w, state := make([]BlockWeights, 1), []float32{0, -inf32, 0}
			w[0].Attended = math.MaxUint64
			scores, scales, values := make([]float32, BlockTokens), make([]float32, BlockTokens), make([]int8, BlockTokens)
			for j := range scores {
				scores[j], scales[j], values[j] = -size, 1, -50
			}
			scores[7], scores[8], values[7], values[8] = size, size, 100, 50
			for range 2 {
				SoftmaxBlocks(w, scores, scales, state[1:], 3, nil)
				WeightedSumBlock(state, 3, 1, w, values, values, BlockTokens)
				for j := range scores { // the kernels may overwrite the scores
					scores[j] = -size
				}
				scores[7], scores[8] = size, size
			}
			require.Equal(t, size, state[1])
			require.Equal(t, float32(4), state[2])
			require.InDelta(t, 300, state[0], 300.0/maxWeight)
		}
	})
}

// TestNonFiniteScoresPropagate checks that a NaN or infinity in a score or a scale makes
// the result NaN or infinite.
func TestNonFiniteScoresPropagate(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		for _, bad := range []float32{float32(math.NaN()), -float32(math.NaN()), inf32} {
			for _, where := range []string{"score", "scale"} {
				w, state := make([]BlockWeights, 1), []float32{0, -inf32, 0}
				w[0].Attended = math.MaxUint64
				scores, scales, values := make([]float32, BlockTokens), make([]float32, BlockTokens), make([]int8, BlockTokens)
				for j := range scales {
					scales[j] = 1
				}
				if where == "score" {
					scores[40] = bad
				} else {
					scales[40] = bad
				}
				SoftmaxBlocks(w, scores, scales, state[1:], 3, nil)
				WeightedSumBlock(state, 3, 1, w, values, values, BlockTokens)
				result := float64(state[0] / state[2])
				require.True(t, math.IsNaN(result) || math.IsInf(result, 0), "%s %g: %g", where, bad, result)
			}
		}
	})
}

func BenchmarkAttend(b *testing.B) {
	rng := rand.New(rand.NewPCG(22, 1))
	for _, d := range []int{64, 128} {
		for _, n := range []int{1, 4, 32} {
			c := newAttendCase(rng, n, d)
			for i := range c.w {
				c.w[i].Attended = math.MaxUint64
			}
			b.Run(fmt.Sprintf("softmax/d=%d/n=%d", d, n), func(b *testing.B) {
				for b.Loop() {
					SoftmaxBlocks(c.w, c.scores, c.scales, c.state[d:], c.stride, nil)
				}
			})
			b.Run(fmt.Sprintf("weigh/d=%d/n=%d", d, n), func(b *testing.B) {
				for b.Loop() {
					WeightedSumBlock(c.state, c.stride, d, c.w, c.values, c.values, BlockTokens)
				}
			})
		}
	}
}

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
