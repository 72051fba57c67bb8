package tiled

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
)

// TestHalfGroupSumsAreExact checks that the sum of one Q6_K group, times its factors, equals
// the integer sum. The largest sum is just below 2^24, the limit of exact integers in
// float32. The scales of the block and the token are 1, and all other groups are zero.
func TestHalfGroupSumsAreExact(t *testing.T) {
	const rows, cols, group = 16, 512, 11
	random := rand.New(rand.NewPCG(3, 6))
	pick := func(values ...int) int { return values[random.IntN(len(values))] }
	weights := make([][cols]int, rows)
	factors := make([][cols / 16]int, rows)
	n, err := quant.Q6_K.RowBytes(cols)
	require.NoError(t, err)
	src := make([]byte, rows*n)
	for row := range rows {
		for b := range cols / 256 {
			var r rowBlock
			r.half[0] = quant.F32ToF16(1)
			for i := range r.scale {
				factors[row][16*b+i] = pick(-128, -128, -127, 127)
				if row == 0 {
					factors[row][16*b+i] = -128
				}
				r.scale[i] = uint8(factors[row][16*b+i])
			}
			for i := range r.code {
				weights[row][256*b+i] = pick(-32, -32, -31, 31)
				if row == 0 {
					weights[row][256*b+i] = -32
				}
				r.code[i] = uint8(weights[row][256*b+i] + halfZero)
			}
			joinQ6K(&r, src[row*n+b*210:][:210])
		}
	}
	m := packed(t, quant.Q6_K, src, rows, cols)
	for _, tokens := range []int{1, 2, 5, 8, 16, 35} {
		x := make([]float32, tokens*cols)
		want := make([]float32, tokens*rows)
		for tok := range tokens {
			in := x[tok*cols+group*GroupElems:][:GroupElems]
			for i := range in {
				in[i] = float32(pick(127, 127, 126, -1))
				if tok == 0 || i == 0 {
					in[i] = 127
				}
			}
			for row := range rows {
				sum := 0
				for i, v := range in {
					k := group*GroupElems + i
					sum += weights[row][k] * factors[row][k/16] * int(v)
				}
				want[tok*rows+row] = float32(sum)
				require.Equal(t, sum, int(want[tok*rows+row]), "the test's numbers are too large")
			}
		}
		require.InDelta(t, 1<<24, want[0], 1<<17)
		for _, path := range paths() {
			t.Run(fmt.Sprintf("%T, %d tokens", path, tokens), func(t *testing.T) {
				require.Equal(t, want, products(path, m, x, tokens))
			})
		}
	}
}
