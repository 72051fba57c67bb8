package quant

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The exponential of a number that is not positive, by a table: the argument is
// rounded to binary16, of whose patterns 32768 are those of one sign. It is here
// to be compared with the polynomial; see Exp32.
var negativeExps = func() (table [1 << 15]float32) {
	for i := range table {
		table[i] = float32(math.Exp(-float64(F16ToF32(uint16(i)))))
	}
	return table
}()

func tableExp(x float32) float32 { return negativeExps[F32ToF16(x)&0x7FFF] }

// TestErrorsOfExponentials tests the bounds of both ways: rounding x to 11 bits
// makes at most |x|·2^-11 of difference to the exponent, which is worst at -1,
// where the table is off by e^-1·2^-11. The polynomial stays within 2 ulp.
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
	require.Greater(t, table, 100*polynomial, "the table would be as good")
}

// BenchmarkExp compares them on a block of scores. expSum is what softmax uses
// on the path that LLMRUN_CPU asks for.
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
