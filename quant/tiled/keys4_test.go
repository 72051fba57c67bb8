package tiled

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
)

// randomKeys4 returns a random block of 4-bit keys and their dequantized values.
func randomKeys4(t testing.TB, cols int) (keys []byte, values []float32 /* [KeyBlock, cols] */) {
	random := rand.New(rand.NewPCG(uint64(cols), 4))
	n, err := Bytes(Key4, KeyBlock, cols)
	require.NoError(t, err)
	keys = make([]byte, n)
	for row := range KeyBlock {
		x := make([]float32, cols)
		for i := range x {
			x[i] = float32(random.NormFloat64()) * float32(1+i%5*4)
		}
		PutKey4(keys, row, cols, x)
	}
	values = make([]float32, KeyBlock*cols)
	for row := range KeyBlock {
		raw := make([]byte, cols/GroupElems*Key4.BlockBytes())
		UnpackRow(raw, Key4, keys, cols, row)
		quant.DequantRow(Key4, values[row*cols:][:cols], raw)
	}
	return keys, values
}

// scores4Of computes scores on a path.
func scores4Of(path kernels, keys []byte, x []float32, cols, queries int) []float32 {
	previous := active
	active = path
	defer func() { active = previous }()
	y := make([]float32, PaddedTokens(queries)*KeyBlock)
	Scores4(y, keys, keys, activationsOf(x, cols, queries), NewScratch(1))
	return y[:queries*KeyBlock]
}

// TestScores4MatchFloats checks that scores of 4-bit keys are close to float64 products.
func TestScores4MatchFloats(t *testing.T) {
	for _, cols := range []int{32, 64, 128, 256} {
		const queries = 19
		keys, values := randomKeys4(t, cols)
		x := randomVector(queries*cols, 7)
		y := scores4Of(active, keys, x, cols, queries)
		for q := range queries {
			for key := range KeyBlock {
				var want, size float64
				for i := range cols {
					var r [GroupElems]int8
					d := quantizeGroup(&r, x[q*cols+i/GroupElems*GroupElems:][:GroupElems])
					v := float64(values[key*cols+i]) * float64(d) * float64(r[i%GroupElems])
					want += v
					size += max(v, -v)
				}
				require.InDelta(t, want, y[q*KeyBlock+key], size*2e-6, "query %d key %d", q, key)
			}
		}
	}
}

// TestScores4AgreeOnEveryPath checks that every path computes the same bits for 4-bit keys.
func TestScores4AgreeOnEveryPath(t *testing.T) {
	forEachPath(t, func(t *testing.T, path kernels) {
		for _, cols := range []int{32, 96, 128, 1056} {
			for _, queries := range []int{1, 2, 5, 19, 32} {
				keys, _ := randomKeys4(t, cols)
				x := randomVector(queries*cols, 7)
				clear(x[:cols/2])
				requireSame(t, scores4Of(portable{}, keys, x, cols, queries), scores4Of(path, keys, x, cols, queries),
					"%d queries of %d", queries, cols)
			}
		}
	})
}

// TestPutKey4 checks the stored values of groups whose quantization is known by hand.
func TestPutKey4(t *testing.T) {
	ramp := func(f func(i int) float32) (x [GroupElems]float32) {
		for i := range x {
			x[i] = f(i)
		}
		return x
	}
	even := ramp(func(i int) float32 { return float32(i%16) - 4 })
	equal := ramp(func(int) float32 { return 2.5 })
	ties := ramp(func(i int) float32 { return float32(i%16) - 4 })
	ties[1], ties[2], ties[3] = -2.5, -1.5, -3.5
	large := ramp(func(i int) float32 { return float32(i%16) * 1000 })
	cases := []struct {
		name string
		x    [GroupElems]float32
		want [GroupElems]float32
	}{
		{"even", even, even},
		{"equal", equal, equal},
		{"zeros", [GroupElems]float32{}, [GroupElems]float32{}},
		{"large", large, large},
		{"ties", ties, func() (want [GroupElems]float32) {
			want = ties
			want[1], want[2], want[3] = -2, -2, -4
			return want
		}()},
	}
	for _, c := range cases {
		for _, row := range []int{0, 17, KeyBlock - 1} {
			const cols = 2 * GroupElems
			n, _ := Bytes(Key4, KeyBlock, cols)
			keys := make([]byte, n)
			for i := range keys {
				keys[i] = 0xAA
			}
			PutKey4(keys, row, cols, append(make([]float32, GroupElems), c.x[:]...))
			raw, got := make([]byte, 2*Key4.BlockBytes()), make([]float32, cols)
			UnpackRow(raw, Key4, keys, cols, row)
			quant.DequantRow(Key4, got, raw)
			require.Equal(t, append(make([]float32, GroupElems), c.want[:]...), got, c.name)
		}
	}
}

// TestPutKey4PadsWithZeros checks that PutKey4 overwrites the missing elements of a short
// key with zeros.
func TestPutKey4PadsWithZeros(t *testing.T) {
	const cols = 3 * GroupElems
	n, _ := Bytes(Key4, KeyBlock, cols)
	a, b := make([]byte, n), make([]byte, n)
	for i := range a {
		a[i], b[i] = 0xFF, 0xFF
	}
	x := randomVector(GroupElems+7, 3)
	PutKey4(a, 20, cols, x)
	PutKey4(b, 20, cols, append(append([]float32(nil), x...), make([]float32, cols-len(x))...))
	require.Equal(t, b, a)
}

// TestNonFiniteKeys4 checks that the score of a key is NaN if the key has a NaN, an
// infinity, or a value beyond the range of binary16 scales.
func TestNonFiniteKeys4(t *testing.T) {
	const cols = 64
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e30, -1e30, 3e38, 70000 * 16} {
		for _, at := range []int{0, 31, 32, 63} {
			keys, _ := randomKeys4(t, cols)
			x := randomVector(cols, 5)
			x[at] = bad
			PutKey4(keys, 9, cols, x)
			for _, path := range paths() {
				y := scores4Of(path, keys, randomVector(cols, 6), cols, 1)
				for key, score := range y {
					require.Equal(t, key == 9, math.IsNaN(float64(score)), "%s: key %d with %g at %d", path.name(), key, bad, at)
				}
			}
		}
	}
}

func BenchmarkScores4(b *testing.B) {
	for _, cols := range []int{64, 128} {
		for _, queries := range []int{1, 4, 32} {
			b.Run(fmt.Sprintf("d=%d/n=%d", cols, queries), func(b *testing.B) {
				keys, _ := randomKeys4(b, cols)
				a, s := activationsOf(randomVector(queries*cols, 7), cols, queries), NewScratch(queries)
				y := make([]float32, PaddedTokens(queries)*KeyBlock)
				for b.Loop() {
					Scores4(y, keys, keys, a, s)
				}
			})
		}
	}
}

func BenchmarkPutKey4(b *testing.B) {
	keys, _ := randomKeys4(b, 64)
	x := randomVector(64, 1)
	for b.Loop() {
		PutKey4(keys, 9, 64, x)
	}
}
