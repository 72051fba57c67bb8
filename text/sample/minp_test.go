package sample

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMinPKeepsUnlikelyTokens draws at a high temperature between two tokens of which one is much less likely, but likely
// enough for MinP: it is drawn as often as without MinP.
func TestMinPKeepsUnlikelyTokens(t *testing.T) {
	logits, seed := []float32{0, -60}, uint64(1) // e^-60 is 9e-27
	drawn := func(minP float32) (n int) {
		s := newSampler(t, Params{Temperature: 100, MinP: minP, Seed: &seed}, len(logits))
		for range 200 {
			id, err := s.Sample(logits)
			require.NoError(t, err)
			s.Accept(id)
			n += int(id)
		}
		return n
	}
	require.Positive(t, drawn(0))
	require.Equal(t, drawn(0), drawn(1e-38))
	require.Equal(t, drawn(0), drawn(8e-27))
	require.Zero(t, drawn(9e-27))
}
