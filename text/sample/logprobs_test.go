package sample

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLn compares ln with the standard library's.
func TestLn(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		x := math.Exp(random.Float64()*60 - 20)
		require.InDelta(t, math.Log(x), ln(x), 1e-15*math.Max(1, math.Abs(math.Log(x))), "ln %v", x)
	}
	require.Zero(t, ln(1))
}

// TestLogProbs checks that probabilities add up to one, and the order of the most likely tokens.
func TestLogProbs(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	logits := make([]float32, 500)
	for i := range logits {
		logits[i] = float32(6 * random.NormFloat64())
	}
	logits[7], logits[30] = float32(math.Inf(-1)), logits[20]
	sum := 0.0
	for id := range logits {
		sum += math.Exp(float64(LogProb(logits, int32(id))))
	}
	require.InDelta(t, 1, sum, 1e-5)

	all := TopLogProbs(nil, logits, len(logits))
	require.Len(t, all, len(logits)-1, "a forbidden token has no probability")
	for i, p := range all {
		require.Equal(t, LogProb(logits, p.ID), p.LogProb)
		if i > 0 {
			before := all[i-1]
			require.True(t, logits[before.ID] > logits[p.ID] || logits[before.ID] == logits[p.ID] && before.ID < p.ID)
		}
	}
	require.Equal(t, all[:5], TopLogProbs(nil, logits, 5))
}
