package calib

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestThinTailsKeepTheirScale: inputs with a long tail but no gap have no more outliers than the
// default fraction.
func TestThinTailsKeepTheirScale(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() float64{
		"normal":  rng.NormFloat64,
		"laplace": rng.ExpFloat64,
		"product": func() float64 { return rng.NormFloat64() * rng.NormFloat64() },
	} {
		const cols = 1024
		sizes := &InputMagnitudes{Name: name, OutlierCounts: make([]int64, cols)}
		for range 64 {
			row := make([]float32, cols)
			for i := range row {
				row[i] = float32(draw())
			}
			sizes.Observe(row)
		}
		sizes.ChooseScale(0)
		require.Equal(t, sizes.Threshold(AllowedOutliers(0, cols, 64*cols)), sizes.Scale*127, name)
	}
}

// TestMoreOutliersThanRememberedAreCounted has twelve large channels of 384. The calibration has
// room for the candidates of four, so the counts come from the second pass over the text.
func TestMoreOutliersThanRememberedAreCounted(t *testing.T) {
	const cols, tokens, large = 384, 200, 12
	for _, channels := range []int{0, 3, large} {
		rng := rand.New(rand.NewPCG(5, 6))
		rows := make([][]float32, tokens)
		for r := range rows {
			rows[r] = make([]float32, cols)
			for i := range rows[r] {
				if rows[r][i] = float32(rng.NormFloat64()); i < channels {
					rows[r][i] *= 50
				}
			}
		}
		read := func(remembers bool) (s *InputMagnitudes, recalled bool) {
			s = &InputMagnitudes{OutlierCounts: make([]int64, cols)}
			if remembers {
				require.True(t, CollectCandidates([]*InputMagnitudes{s}, tokens, 0))
			}
			for _, row := range rows {
				s.Observe(row)
			}
			s.ChooseScale(0)
			recalled = s.CountCandidates(s.Limit, s.OutlierCounts)
			for _, row := range rows {
				s.CountOutliers(row)
			}
			return s, recalled
		}
		want, recalled := read(false)
		require.False(t, recalled)
		got, recalled := read(true)
		require.Equal(t, channels < large, recalled)
		require.Equal(t, want.OutlierCounts, got.OutlierCounts)
		require.Equal(t, want.Scale, got.Scale)
	}
}
