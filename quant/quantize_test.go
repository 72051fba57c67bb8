package quant

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func roundTrip(t *testing.T, typ Type, x []float32) []float32 {
	t.Helper()
	n, err := typ.RowBytes(len(x))
	require.NoError(t, err)
	row := make([]byte, n)
	require.NoError(t, QuantizeRow(typ, row, x))
	got := make([]float32, len(x))
	DequantRow(typ, got, row)
	return got
}

func TestQuantizeRowIsClose(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, 32*200)
	var power float64
	for i := range x {
		x[i] = float32(random.NormFloat64())
		power += float64(x[i] * x[i])
	}
	// Relative errors in root mean square. Eight bits of a normal distribution
	// give about 0.6 %, four with an offset about 7.5 %.
	for typ, limit := range map[Type]float64{Q8_0: 0.007, Q4_1: 0.078} {
		var sum float64
		for i, v := range roundTrip(t, typ, x) {
			sum += float64((v - x[i]) * (v - x[i]))
		}
		require.Less(t, math.Sqrt(sum/power), limit, typ.String())
	}
}

func TestQuantizeRowKeepsWhatItCan(t *testing.T) {
	zeros, same, steps := make([]float32, 32), make([]float32, 32), make([]float32, 32)
	for i := range same {
		same[i] = 0.75
		steps[i] = float32(i%16) - 4
	}
	require.Equal(t, zeros, roundTrip(t, Q8_0, zeros))
	require.Equal(t, zeros, roundTrip(t, Q4_1, zeros))
	require.Equal(t, same, roundTrip(t, Q4_1, same))
	require.Equal(t, steps, roundTrip(t, Q4_1, steps), "sixteen even steps are exact")
}

func TestQuantizeRowRefuses(t *testing.T) {
	require.Error(t, QuantizeRow(Q4_K, make([]byte, 1000), make([]float32, 256)))
	require.Error(t, QuantizeRow(Q8_0, make([]byte, 34), make([]float32, 31)))
	require.Error(t, QuantizeRow(Q8_0, make([]byte, 33), make([]float32, 32)))
}

// BenchmarkQuantizeRow reports source elements a second.
func BenchmarkQuantizeRow(b *testing.B) {
	x, row := make([]float32, 4096), make([]byte, 8192)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
	}
	for _, typ := range []Type{Q8_0, Q4_1} {
		b.Run(typ.String(), func(b *testing.B) {
			for range b.N {
				if err := QuantizeRow(typ, row, x); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*len(x))/b.Elapsed().Seconds()/1e6, "Melem/s")
		})
	}
}
