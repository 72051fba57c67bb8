package index

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
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

// TestInt8FindsWhatFloatFinds compares the ten nearest passages of a search with those by float64. The search multiplies 8 bits of all
// rows, and 4 more of the best 256.
func TestInt8FindsWhatFloatFinds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) // the recall depends on the numbers
	const dims = 384
	rows, queries := testutil.Effort(2000, 50000), testutil.Effort(20, 60)
	all := cluster(r, rows, dims)
	x := open(t, vfs.NewMem(), Options{Model: "m"})
	units := make([][]float32, rows)
	change(t, x, func(w *Writer) {
		n := Note{Path: "a.md"}
		var keys []Key
		for i := range all {
			key := Key{byte(i), byte(i >> 8), byte(i >> 16)}
			n.Passages = append(n.Passages, Passage{Start: i, End: i + 1, Words: 1, Key: key})
			keys = append(keys, key)
		}
		require.NoError(t, w.Put(&n))
		for at := 0; at < rows; at += 500 {
			require.NoError(t, w.PutVectors(keys[at:at+500], all[at:at+500]))
		}
	})
	right, coarse := 0, 0
	for range queries {
		query := gaussian(r, dims)
		for j, v := range all[r.IntN(rows)] {
			query[j] = query[j]/2 + v
		}
		unit, err := normalized(query)
		require.NoError(t, err)
		want := make([]float64, rows)
		for i, v := range all {
			if units[i] == nil {
				units[i], err = normalized(v)
				require.NoError(t, err)
			}
			for j, v := range units[i] {
				want[i] += float64(v) * float64(unit[j])
			}
		}
		exact := nearest(want)
		got, err := x.vectors.scores(query)
		require.NoError(t, err)
		testutil.RequireNear(t, want[:100], got[:100], 2e-3, "scores")
		for _, row := range nearest(got) {
			if slices.Contains(exact, row) {
				coarse++
			}
		}
		hits, err := x.Search(Query{Vector: query, VectorsOnly: true, Most: 10, PerNote: 10})
		require.NoError(t, err)
		require.Len(t, hits, 10)
		for _, hit := range hits {
			require.InDelta(t, want[hit.Start], hit.Score, 2e-4, "finer scores")
			if slices.Contains(exact, hit.Start) {
				right++
			}
		}
	}
	recall := float64(right) / float64(10*queries)
	t.Logf("%d vectors of %d elements, %d questions: recall@10 %.4f, of int8 alone %.4f", rows, dims, queries, recall, float64(coarse)/float64(10*queries))
	require.GreaterOrEqual(t, recall, 0.99)
}

// TestRankingsAreFusedByRank searches by words and by vectors, which disagree. The score of a passage is the sum of its reciprocal
// ranks, and a passage that one ranking alone has is found too.
func TestRankingsAreFusedByRank(t *testing.T) {
	x := open(t, vfs.NewMem(), Options{Model: "m"})
	change(t, x, func(w *Writer) {
		for path, v := range map[string]struct {
			text   string
			vector []float32
		}{
			"both.md": {"fox fox", []float32{1, 0.2, 0}}, "words.md": {"fox fox fox fox", nil},
			"near.md": {"a hen", []float32{1, 0, 0}}, "far.md": {"a fox, and more words", []float32{-1, 0, 1}},
		} {
			n := noteOf(t, path, v.text)
			require.NoError(t, w.Put(n))
			if v.vector != nil {
				require.NoError(t, w.PutVectors([]Key{n.Passages[0].Key}, [][]float32{v.vector}))
			}
		}
	})
	hits, err := x.Search(Query{Text: "fox", Vector: []float32{1, 0, 0}, Most: 4})
	require.NoError(t, err)
	scores, order := map[string]float64{}, []string{}
	for _, hit := range hits {
		scores[hit.Path], order = hit.Score, append(order, hit.Path)
	}
	require.Equal(t, map[string]float64{"both.md": 1./62 + 1./62, "words.md": 1. / 61, "near.md": 1. / 61, "far.md": 1./63 + 1./63}, scores)
	require.Equal(t, []string{"both.md", "far.md", "near.md", "words.md"}, order)
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
