package index

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
)

// cluster returns n vectors around few centres, as encoders give them for texts about few things.
func cluster(r *rand.Rand, n, dims int) [][]float32 {
	centres := make([][]float32, 50)
	for i := range centres {
		centres[i] = gaussian(r, dims)
	}
	all := make([][]float32, n)
	for i := range all {
		all[i] = gaussian(r, dims)
		for j, v := range centres[r.IntN(len(centres))] {
			all[i][j] += v
		}
	}
	return all
}

func gaussian(r *rand.Rand, dims int) []float32 {
	x := make([]float32, dims)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// nearest returns the rows with the ten largest scores.
func nearest[T float32 | float64](scores []T) []int {
	rows := make([]int, len(scores))
	for i := range rows {
		rows[i] = i
	}
	slices.SortFunc(rows, func(a, b int) int {
		if scores[a] != scores[b] {
			if scores[a] > scores[b] {
				return -1
			}
			return 1
		}
		return a - b
	})
	return rows[:10]
}

// TestInt8FindsWhatFloatFinds compares the ten nearest rows with those by float64.
func TestInt8FindsWhatFloatFinds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) // the recall depends on the numbers
	const dims, queries = 384, 20
	rows := testutil.Effort(2000, 100000)
	all := cluster(r, rows, dims)
	var v vectors
	v.reset("m", dims)
	units := make([][]float32, rows)
	for i, x := range all {
		row, err := QuantizeVector(nil, x)
		require.NoError(t, err)
		v.add(Key{byte(i), byte(i >> 8), byte(i >> 16)}, row)
		units[i], err = normalized(x)
		require.NoError(t, err)
	}
	right, coarse := 0, 0
	for range queries {
		query := gaussian(r, dims)
		for j, x := range all[r.IntN(rows)] {
			query[j] = query[j]/2 + x
		}
		got, err := v.scores(query)
		require.NoError(t, err)
		unit, err := normalized(query)
		require.NoError(t, err)
		want := make([]float64, rows)
		for i := range units {
			for j, x := range units[i] {
				want[i] += float64(x) * float64(unit[j])
			}
		}
		exact := nearest(want)
		for _, row := range nearest(got) {
			if slices.Contains(exact, row) {
				coarse++
			}
		}
		fine := slices.Clone(want)
		for row := range fine {
			fine[row] = float64(got[row]) + v.rest(row, unit)
		}
		testutil.RequireNear(t, want, fine, 2e-4, "finer scores")
		for _, row := range nearest(fine) {
			if slices.Contains(exact, row) {
				right++
			}
		}
		testutil.RequireNear(t, want[:100], got[:100], 2e-3, "scores")
	}
	recall := float64(right) / (10 * queries)
	t.Logf("%d vectors of %d elements: recall@10 %.4f, of int8 alone %.4f", rows, dims, recall, float64(coarse)/(10*queries))
	require.GreaterOrEqual(t, recall, 0.99)
}

// TestScoresHaveTheSameBitsEverywhere compares scores with the sums of integers that the format defines.
func TestScoresHaveTheSameBitsEverywhere(t *testing.T) {
	r := testutil.Random(t)
	for _, dims := range []int{1, 31, 32, 100, 384} {
		var v vectors
		v.reset("m", dims)
		var packed [][]byte
		for i := range 300 {
			row, err := QuantizeVector(nil, gaussian(r, dims))
			require.NoError(t, err)
			v.add(Key{byte(i), byte(i >> 8)}, row)
			packed = append(packed, row[:groups(dims)*coarseBytes])
		}
		query := gaussian(r, dims)
		got, err := v.scores(query)
		require.NoError(t, err)
		unit, err := normalized(query)
		require.NoError(t, err)
		first, rest := splitQuery(unit)
		for i, row := range packed {
			require.Equal(t, scalarDot(row, first)+scalarDot(row, rest), got[i], "row %d of %d elements", i, dims)
		}
	}
}

// scalarDot is the dot product of a row and a vector as package tiled defines it.
func scalarDot(row []byte, x []float32) (acc float32) {
	for g := 0; g*34 < len(row); g++ {
		most := float32(0)
		for _, v := range x[g*32 : g*32+32] {
			most = max(most, v, -v)
		}
		d, inverse := most/127, float32(0)
		if most >= 0x1p-100 {
			inverse = 127 / most
		} else {
			d = 0
		}
		sum := int32(0)
		for i := range 32 {
			sum += int32(int8(row[g*34+2+i])) * int32(math.RoundToEven(float64(float32(x[g*32+i]*inverse))))
		}
		scale := quant.F16ToF32(uint16(row[g*34]) | uint16(row[g*34+1])<<8)
		acc = quant.FMA32(float32(sum)*scale, d, acc)
	}
	return acc
}

func TestVectorsMustFit(t *testing.T) {
	var v vectors
	v.reset("m", 8)
	_, err := v.scores(make([]float32, 7))
	require.ErrorContains(t, err, "7 elements")
	for _, bad := range [][]float32{{}, make([]float32, MaxDims+1), {float32(math.Inf(1))}} {
		_, err := QuantizeVector(nil, bad)
		require.Error(t, err)
	}
	row, err := QuantizeVector(nil, make([]float32, 8))
	require.NoError(t, err)
	v.add(Key{1}, row)
	v.add(Key{1}, row)
	require.Equal(t, 1, v.rows)
	scores, err := v.scores([]float32{1, 0, 0, 0, 0, 0, 0, 0})
	require.NoError(t, err)
	require.Equal(t, []float32{0}, scores)
}
