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
