package quant

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func roundTrip(t *testing.T, typ Type, x []float32) []float32 {
	t.Helper()
	return roundTripWith(t, typ, x, nil)
}

func roundTripWith(t *testing.T, typ Type, x, importance []float32) []float32 {
	t.Helper()
	n, err := typ.RowBytes(len(x))
	require.NoError(t, err)
	row := make([]byte, n)
	require.NoError(t, QuantizeRow(typ, row, x, importance))
	got := make([]float32, len(x))
	DequantRow(typ, got, row)
	return got
}

// TestQuantizeRowIsClose checks the quantization error of normally distributed rows.
func TestQuantizeRowIsClose(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, 32*200)
	var power float64
	for i := range x {
		x[i] = float32(random.NormFloat64())
		power += float64(x[i] * x[i])
	}
	// The limits are relative RMS errors. For a normal distribution the error of 8 bits is
	// about 0.6 %, and that of 4 bits with an offset is about 7.3 %.
	for typ, limit := range map[Type]float64{BF16: 0.002, Q8_0: 0.007, Q4_1: 0.075, Q4_0: 0.09, IQ4_NL: 0.08, NF4: 0.085} {
		var sum float64
		for i, v := range roundTrip(t, typ, x) {
			sum += float64((v - x[i]) * (v - x[i]))
		}
		require.Less(t, math.Sqrt(sum/power), limit, typ.String())
	}
}

// TestQuantizeRowIsExactWherePossible checks that rows which a format can represent
// survive a round trip unchanged.
func TestQuantizeRowIsExactWherePossible(t *testing.T) {
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

// TestQuantizeRowObeysImportance checks that importance weights reduce the weighted error,
// and that QuantizeRow does not panic on a NaN or infinity.
func TestQuantizeRowObeysImportance(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	x, importance := make([]float32, 32*100), make([]float32, 32*100)
	for i := range x {
		x[i] = float32(random.NormFloat64())
		importance[i] = float32(math.Exp(3 * random.NormFloat64()))
	}
	for _, typ := range []Type{Q4_1, Q4_0, IQ4_NL, NF4} {
		weighted := func(got []float32) (sum float64) {
			for i, v := range got {
				sum += float64(importance[i]) * float64((v-x[i])*(v-x[i]))
			}
			return sum
		}
		require.Less(t, weighted(roundTripWith(t, typ, x, importance)), 0.8*weighted(roundTrip(t, typ, x)), typ.String())
		require.Equal(t, roundTrip(t, typ, make([]float32, 32)), roundTripWith(t, typ, make([]float32, 32), make([]float32, 32)), typ.String())
		bad := []float32{0: float32(math.NaN()), 1: float32(math.Inf(1)), 31: 1}
		require.NotPanics(t, func() { roundTrip(t, typ, bad) }, typ.String())
	}
	require.Error(t, QuantizeRow(Q4_1, make([]byte, 20), make([]float32, 32), make([]float32, 31)))
}

// TestQuantizeRowRefuses checks that QuantizeRow rejects formats that it cannot write and
// wrong sizes.
func TestQuantizeRowRefuses(t *testing.T) {
	require.Error(t, QuantizeRow(Q4_K, make([]byte, 1000), make([]float32, 256), nil))
	require.Error(t, QuantizeRow(Q8_0, make([]byte, 34), make([]float32, 31), nil))
	require.Error(t, QuantizeRow(Q8_0, make([]byte, 33), make([]float32, 32), nil))
}

// BenchmarkQuantizeRow reports source elements per second.
func BenchmarkQuantizeRow(b *testing.B) {
	x, row := make([]float32, 4096), make([]byte, 8192)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
	}
	for _, typ := range []Type{Q8_0, Q4_1, Q4_0, NF4} {
		b.Run(typ.String(), func(b *testing.B) {
			for range b.N {
				if err := QuantizeRow(typ, row, x, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*len(x))/b.Elapsed().Seconds()/1e6, "Melem/s")
		})
	}
}

// TestQuantizeRowPerRow checks that all blocks of a row have one scale, and that the row's
// largest element becomes the largest code.
func TestQuantizeRowPerRow(t *testing.T) {
	x := make([]float32, 96)
	for i := range x {
		x[i] = float32(i) / 1000
	}
	x[40] = -2.54
	n, err := Q8_0.RowBytes(len(x))
	require.NoError(t, err)
	row := make([]byte, n)
	require.NoError(t, QuantizeRowPerRow(row, x))
	size := Q8_0.BlockBytes()
	for b := 1; b < 3; b++ {
		require.Equal(t, row[:2], row[b*size:b*size+2], "the scale of block %d", b)
	}
	require.EqualValues(t, -127, int8(row[size+2+8]))
	got := make([]float32, len(x))
	DequantRow(Q8_0, got, row)
	for i := range x {
		require.LessOrEqual(t, math.Abs(float64(got[i]-x[i])), 0.02/2*1.001, "element %d", i)
	}

	require.NoError(t, QuantizeRowPerRow(row, make([]float32, 96)))
	require.Equal(t, make([]byte, n), row)
	require.Error(t, QuantizeRowPerRow(row, make([]float32, 100)), "not a whole number of blocks")
	require.Error(t, QuantizeRowPerRow(row[:n-1], x))
}

// TestAbsurdWeightsStayFinite quantizes blocks with one weight whose scale is beyond a half: no other element becomes
// infinite or NaN.
func TestAbsurdWeightsStayFinite(t *testing.T) {
	for _, typ := range []Type{Q8_0, Q4_0, Q4_1, NF4, IQ4_NL} {
		for _, big := range []float32{5e5, -6e5, 1e6, 9e6, -1e10, 3e38} {
			x := make([]float32, 64)
			for i := range x {
				x[i] = float32(i)
			}
			x[5] = big
			for i, v := range roundTrip(t, typ, x) {
				require.False(t, math.IsNaN(float64(v)) || math.IsInf(float64(v), 0), "%v %g: element %d became %g", typ, big, i, v)
			}
		}
	}
}
