package altup

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPredictAndCorrect compares with sums that are computed by hand.
func TestPredictAndCorrect(t *testing.T) {
	w := Weights{
		Router:  []float32{2, 0, 0, 2}, // says tanh(normed)
		Predict: []float32{1, 0, 0, 1, 0, 0, 1, 1},
		Correct: []float32{1, 0, 0, -1},
		Scale:   []float32{2, 3},
	}
	a, b := math.Tanh(1), math.Tanh(0.5)
	s := Streams{{1, 2}, {10, 20}}
	w.PredictRow(&s, 2, []float32{1, 0.5})
	requireNear(t, []float64{1 + a + 10*b, 2 + 2*a + 20*b}, s[0])
	requireNear(t, []float64{10 + 10*(a+b), 20 + 20*(a+b)}, s[1])

	s = Streams{{1, 2}, {10, 20}}
	computed := []float32{4, 6}
	w.CorrectRow(&s, 2, 0, computed, []float32{1, 0.5})
	requireNear(t, []float64{1 + 3*(1+a), 2 + 4*(1+a)}, s[0])
	requireNear(t, []float64{10 + 3*(1-b), 20 + 4*(1-b)}, s[1])
	requireNear(t, []float64{2 * (1 + 3*(1+a)), 3 * (2 + 4*(1+a))}, computed)
}

func TestMatch(t *testing.T) {
	x := []float32{3, 4}
	Match(x, []float32{10, 0})
	requireNear(t, []float64{6, 8}, x)
	zero := []float32{0, 0}
	Match(zero, []float32{1, 1})
	require.Equal(t, []float32{0, 0}, zero)
}

func TestSparsify(t *testing.T) {
	x := []float32{0, 0, 0, 4} // mean 1, standard deviation √3 of n values
	Sparsify(x, 1)
	requireNear(t, []float64{0, 0, 0, 3 - math.Sqrt(3)}, x)
}

func requireNear(t *testing.T, want []float64, got []float32) {
	t.Helper()
	for i := range want {
		require.InDelta(t, want[i], got[i], 1e-5)
	}
}
