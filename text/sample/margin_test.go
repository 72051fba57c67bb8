package sample

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMarginIsWhatALogitMayFall lowers the logit of the returned token by nearly its margin and by a little more.
func TestMarginIsWhatALogitMayFall(t *testing.T) {
	for name, p := range map[string]Params{
		"greedy":  {},
		"drawn":   {Temperature: 0.8, Seed: seed(4)},
		"adapted": {Temperature: 1.3, Seed: seed(5), RepeatPenalty: 1.1, LogitBias: map[int32]float32{3: 2, 9: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range uint64(50) {
				logits := randomLogits(i, 300)
				s := newSampler(t, p, len(logits))
				s.Accept(7)
				id, err := s.Sample(logits)
				require.NoError(t, err)
				margin, second := s.Margin(logits, id)
				require.Positive(t, margin)
				if id == 7 && p.RepeatPenalty != 0 {
					continue // the penalty scales the logit
				}
				was := logits[id]
				for part, same := range map[float32]bool{0.99: true, 1.01: false} {
					logits[id] = was - part*float32(margin) - 1e-4*(2*part-2)
					got, err := s.Sample(logits)
					require.NoError(t, err)
					require.Equal(t, same, got == id, "margin %g, part %g", margin, part)
					require.True(t, same || got == second)
				}
			}
		})
	}
	for _, p := range []Params{{}, {Temperature: 1}} {
		margin, _ := newSampler(t, p, 2).Margin([]float32{1, minusInf}, 0)
		require.Equal(t, math.Inf(1), margin)
	}
}
