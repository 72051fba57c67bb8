package quant

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAdvanceMatrixMatchesTwin checks that AdvanceMatrix has the same bits on every path and its twin, in place too.
func TestAdvanceMatrixMatchesTwin(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(31, 1))
		for _, keys := range []int{1, 2, 5, 16, 24} {
			for _, columns := range []int{1, 5, 7, 8, 9, 16, 31, 32, 33, 48, 63, 64, 65, 80, 128, 131} {
				for kind := range 8 {
					checkAdvance(t, rng, keys, columns, columns+rng.IntN(2)*rng.IntN(9), kind)
				}
			}
		}
	})
}

func checkAdvance(t *testing.T, rng *rand.Rand, keys, columns, stride, kind int) {
	t.Helper()
	s := MatrixStep{
		Key: randomFloats(rng, keys), Query: randomFloats(rng, keys), Value: randomFloats(rng, columns),
		Decay: rng.Float32(), Weight: rng.Float32(), Skip: rng.Float32(), Delta: kind&1 != 0, HasSkip: kind&2 != 0,
	}
	from, to := randomFloats(rng, keys*stride), filled(keys*stride+3)
	want, wantTo, twin := filled(columns+3), filled(keys*stride+3), s
	got := filled(columns + 3)
	if kind&4 != 0 {
		s.Out, twin.Out = got, want
	}
	twinOf(active).advance(wantTo, from, stride, twin, twinOf(active).dot(s.Key, s.Query))
	AdvanceMatrix(to, from, stride, s)
	requireBits(t, wantTo, to, "matrix of keys=%d columns=%d kind=%d", keys, columns, kind)
	requireBits(t, want, got, "outputs of keys=%d columns=%d kind=%d", keys, columns, kind)
	AdvanceMatrix(from, from, stride, s)
	for i := range keys { // what is between rows stays
		requireBits(t, wantTo[i*stride:][:columns], from[i*stride:][:columns], "in place: keys=%d columns=%d kind=%d", keys, columns, kind)
	}
}

// TestAdvanceMatrixByHand checks a delta net of one key, whose numbers are exact.
func TestAdvanceMatrixByHand(t *testing.T) {
	out, matrix := []float32{0}, []float32{8}
	step := MatrixStep{Key: []float32{2}, Query: []float32{3}, Value: []float32{5}, Out: out, Decay: 0.5, Weight: 0.25, Skip: 10, Delta: true}
	AdvanceMatrix(matrix, matrix, 1, step)
	require.Equal(t, []float32{4 + 2*0.25*(5-0.5*16)}, matrix)
	require.Equal(t, []float32{3 * 2.5}, out)

	step.Delta, step.HasSkip, matrix[0] = false, true, 8
	AdvanceMatrix(matrix, matrix, 1, step)
	require.Equal(t, []float32{4 + 2*0.25*5}, matrix)
	require.Equal(t, []float32{3*6.5 + 50}, out)
	require.Panics(t, func() { AdvanceMatrix(matrix[:0], matrix, 1, step) })
}
