package exec

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/weights"
)

// TestSinkAddsAWeightWithoutAValue compares the factor of weighted values with float64, for sinks below and
// above the maximum.
func TestSinkAddsAWeightWithoutAValue(t *testing.T) {
	s := &passState{w: &weights.LayerWeights{Sinks: []float32{-3, 0.5, 7, 200}}}
	for head, sink := range s.w.Sinks {
		for _, top := range []float32{-4, 0.5, 6, 150} {
			for _, sum := range []float32{1, 3.5, 90} {
				want := 1 / (float64(sum) + math.Exp(float64(sink)-float64(top)))
				require.InDelta(t, want, float64(s.weightOfSum(top, sum, head)), 1e-6+1e-6*want, "sink %v, maximum %v, sum %v", sink, top, sum)
			}
		}
	}
	s.w.Sinks = nil
	require.Equal(t, float32(0.25), s.weightOfSum(3, 4, 0))
}
