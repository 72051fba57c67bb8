package sample

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

var minusInf = float32(math.Inf(-1))

func seed(n uint64) *uint64 { return &n }

func newSampler(t testing.TB, p Params, vocab int) *Sampler {
	s, err := New(p, vocab)
	require.NoError(t, err)
	return s
}

// randomLogits returns logits that resemble those of a model: normally distributed with
// a few outliers.
func randomLogits(seed uint64, vocab int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 2)
	}
	for range min(20, vocab) {
		logits[rng.IntN(vocab)] += 8
	}
	return logits
}
