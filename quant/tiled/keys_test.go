package tiled

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/limits"
)

// randomKeys returns a random block of keys. Its codes are signed bytes except -128, like
// those of quantization.
func randomKeys(cols int) Keys {
	random := rand.New(rand.NewPCG(uint64(cols), 1))
	k := Keys{Codes: make([]uint8, KeyBlock*cols), Scales: make([]float32, KeyBlock)}
	for i := range k.Codes {
		k.Codes[i] = uint8(1 + random.IntN(255))
	}
	for i := range k.Scales {
		k.Scales[i] = random.Float32()
	}
	return k
}

// scoresOf computes scores on a path and omits the rows of padding queries.
func scoresOf(path kernels, k Keys, x []float32, cols, queries int) []float32 {
	previous := active
	active = path
	defer func() { active = previous }()
	y := make([]float32, PaddedTokens(queries)*KeyBlock)
	Scores(y, k, k.Codes, activationsOf(x, cols, queries), NewScratch(1))
	return y[:queries*KeyBlock]
}

// TestScoresMatchFloats checks that scores of 8-bit keys are close to float64 products.
func TestScoresMatchFloats(t *testing.T) {
	for _, cols := range []int{32, 64, 128, 256} {
		const queries = 19
		k, x := randomKeys(cols), randomVector(queries*cols, 7)
		y := scoresOf(active, k, x, cols, queries)
		for q := range queries {
			for key := range KeyBlock {
				var want, size float64
				for i := range cols {
					code := int(k.Codes[key/16*16*cols+i/4*64+key%16*4+i%4]) - 128
					var r [GroupElems]int8
					d := quantizeGroup(&r, x[q*cols+i/GroupElems*GroupElems:][:GroupElems])
					v := float64(code) * float64(k.Scales[key]) * float64(d) * float64(r[i%GroupElems])
					want += v
					size += max(v, -v)
				}
				require.InDelta(t, want, y[q*KeyBlock+key], size*1e-6, "query %d key %d", q, key)
			}
		}
	}
}

// TestScoresAgreeOnEveryPath checks that every path computes the same bits for 8-bit keys.
func TestScoresAgreeOnEveryPath(t *testing.T) {
	forEachPath(t, func(t *testing.T, path kernels) {
		for _, cols := range []int{32, 96, 128, 1056} {
			for _, queries := range []int{1, 2, 5, 19} {
				k, x := randomKeys(cols), randomVector(queries*cols, 7)
				clear(x[:cols/2])
				requireSame(t, scoresOf(portable{}, k, x, cols, queries), scoresOf(path, k, x, cols, queries),
					"%d queries of %d", queries, cols)
			}
		}
	})
}

// TestScoresOfExtremeKeys checks keys and queries of the largest magnitudes.
func TestScoresOfExtremeKeys(t *testing.T) {
	forEachPath(t, func(t *testing.T, path kernels) {
		const cols, queries = 64, 3
		for _, code := range []uint8{0, 1, 127, 128, 255} {
			for _, v := range []float32{1, -1} {
				k, x := randomKeys(cols), make([]float32, queries*cols)
				for i := range k.Codes {
					k.Codes[i] = code
				}
				for i := range x {
					x[i] = v
				}
				requireSame(t, scoresOf(portable{}, k, x, cols, queries), scoresOf(path, k, x, cols, queries),
					"keys of %d, queries of %g", int(code)-128, v)
			}
		}
	})
}

// TestScoresOfLargeQueries checks that multiplying queries by a power of two multiplies
// their scores by exactly that power, so no intermediate value overflows before the score.
func TestScoresOfLargeQueries(t *testing.T) {
	const cols, queries = 128, 5
	k, x := randomKeys(cols), randomVector(queries*cols, 3)
	want := scoresOf(active, k, x, cols, queries)
	for _, factor := range []float32{0x1p-60, 0x1p20, 0x1p60, 0x1p100} {
		large := make([]float32, len(x))
		for i, v := range x {
			large[i] = v * factor
		}
		for i, v := range scoresOf(active, k, large, cols, queries) {
			require.Equal(t, want[i]*factor, v, "factor %g", factor)
		}
	}
}

func BenchmarkScores(b *testing.B) {
	for _, cols := range []int{64, 128} {
		for _, queries := range []int{1, 4, 32} {
			b.Run(fmt.Sprintf("d=%d/n=%d", cols, queries), func(b *testing.B) {
				k, x := randomKeys(cols), randomVector(queries*cols, 7)
				a, s := activationsOf(x, cols, queries), NewScratch(1)
				y := make([]float32, PaddedTokens(queries)*KeyBlock)
				for b.Loop() {
					Scores(y, k, k.Codes, a, s)
				}
			})
		}
	}
}

// BenchmarkAttentionFromMemory attends to blocks of keys and values that are in no cache, as a token
// does behind a long context: four queries of 64 elements, one thread. The blocks of a head lie between those
// of seven others. It reports the median time of a block over parts of the memory, which other load on the
// machine interrupts rarely.
func BenchmarkAttentionFromMemory(b *testing.B) {
	const d, queries, heads, part = 64, 4, 8, 64
	const half, whole = KeyBlock * d, 2 * KeyBlock * d // bytes of the keys of a block, and of its values too
	memory := limits.NewMemory(limits.SweepBytes)
	for i, random := 0, rand.New(rand.NewPCG(1, 2)); i < len(memory); i++ {
		if i < whole {
			memory[i] = byte(random.Uint32())
		} else {
			i += copy(memory[i:], memory[:i]) - 1
		}
	}
	a, s := activationsOf(randomVector(queries*d, 7), d, queries), NewScratch(queries)
	scores, scales := make([]float32, PaddedTokens(queries)*KeyBlock), randomKeys(d).Scales
	state, weights := make([]float32, queries*(d+2)), make([]quant.BlockWeights, queries)
	for i := range weights {
		weights[i].Attended = math.MaxUint64
	}
	values := func(block []byte) []int8 { return unsafe.Slice((*int8)(unsafe.Pointer(&block[half])), half) }
	var times []time.Duration
	for b.Loop() {
		for head := range heads {
			block := func(i int) []byte { return memory[(i*heads+head)*whole:][:whole] }
			for first := 0; first+part < len(memory)/whole/heads; first += part {
				start := time.Now()
				for i := range part {
					current, next := block(first+i), block(first+i+1)
					Scores(scores, Keys{Codes: current[:half], Scales: scales}, next[:half], a, s)
					quant.SoftmaxBlocks(weights, scores, scales, state[d:], d+2, next[half/2:half/2*3])
					quant.WeightedSumBlock(state, d+2, d, weights, values(current), values(next), KeyBlock)
				}
				times = append(times, time.Since(start)/part)
			}
		}
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), "ns/block")
}
