package quant

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// negativeExps is a table of exponentials of all 32768 non-positive binary16 arguments. The
// tests compare it with the polynomial of Exp32.
var negativeExps = func() (table [1 << 15]float32) {
	for i := range table {
		table[i] = float32(math.Exp(-float64(F16ToF32(uint16(i)))))
	}
	return table
}()

func tableExp(x float32) float32 { return negativeExps[F32ToF16(x)&0x7FFF] }

// TestErrorsOfExponentials checks the error bounds of both methods. Rounding x to 11 bits
// changes the exponent by at most |x|·2^-11. The table's largest error is e^-1·2^-11, at
// -1. The polynomial's error is at most 2 ulp.
func TestErrorsOfExponentials(t *testing.T) {
	bound := math.Exp(-1) / 2048 * 1.001
	var table, polynomial float64
	for x := float32(-87); x <= 0; x += 0.00037 {
		want := math.Exp(float64(x))
		table = max(table, math.Abs(float64(tableExp(x))-want))
		polynomial = max(polynomial, math.Abs(float64(Exp32(x))-want))
	}
	require.LessOrEqual(t, table, bound)
	require.LessOrEqual(t, polynomial, 0x1p-23)
	require.Greater(t, table, 100*polynomial, "the table must be less accurate")
}

// BenchmarkExp compares the table and the polynomial on a block of scores. The polynomial
// is expSum, the function of softmax, on the path that LLMRUN_CPU selects.
func BenchmarkExp(b *testing.B) {
	scores, p := make([]float32, BlockTokens), make([]float32, BlockTokens)
	for i := range scores {
		scores[i] = -float32(i) / 7
	}
	b.Run("table", func(b *testing.B) {
		for b.Loop() {
			var lane [lanes]float32
			for i, v := range scores {
				p[i] = tableExp(v)
				lane[i%lanes] += p[i]
			}
			addLanes(&lane)
		}
	})
	b.Run("polynomial", func(b *testing.B) {
		for b.Loop() {
			copy(p, scores)
			active.expSum(p, 0)
		}
	})
}
