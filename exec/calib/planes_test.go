package calib

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
)

// TestPlanesAreChosenByLossPerByte gives low bits first to the matrix that needs them most, and never takes more than the share.
func TestPlanesAreChosenByLossPerByte(t *testing.T) {
	linear := func(typ quant.Type, rows int) *weights.Linear {
		return &weights.Linear{Matrix: weights.Matrix{Type: typ, Rows: rows, Cols: 256, Tiled: true}}
	}
	p := NewPlanes(map[string]*weights.Linear{
		"needs": linear(quant.Q4_0, 64), "large": linear(quant.Q4_0, 640), "bytes": linear(quant.Q8_0, 64), "floats": linear(quant.F16, 64),
	})
	require.Equal(t, 5, p.Count(), "two planes of nibbles, one of bytes, none of floats")
	losses := map[string]map[tiled.Plane]float64{
		"needs": {tiled.High2: 3, tiled.High3: 1}, "large": {tiled.High2: 2, tiled.High3: 1.5}, "bytes": {tiled.High4: 0.01},
	}
	require.NoError(t, p.Each(func(name string, plane tiled.Plane) (float64, error) { return losses[name][plane], nil }))
	chosen := func(share float64) (taken float64, planes [3]tiled.Plane) {
		taken = p.Choose(share)
		return taken, [3]tiled.Plane{p.Of("needs", quant.Q4_0), p.Of("large", quant.Q4_0), p.Of("bytes", quant.Q8_0)}
	}
	least, planes := chosen(0.1)
	require.Greater(t, least, 0.5, "no plane is smaller")
	require.Equal(t, [3]tiled.Plane{tiled.High2, tiled.High2, tiled.High4}, planes)
	taken, planes := chosen(least + 0.05)
	require.LessOrEqual(t, taken, least+0.05)
	require.Equal(t, [3]tiled.Plane{tiled.Whole, tiled.High2, tiled.High4}, planes, "the matrix that needs its low bits has them")
	_, planes = chosen(1)
	require.Equal(t, [3]tiled.Plane{}, planes)
	require.Equal(t, tiled.Whole, p.Of("unknown", quant.Q4_0))
	for share := 0.5; share < 1; share += 0.01 {
		taken := p.Choose(share)
		require.LessOrEqual(t, taken, max(share, least))
	}
	data, err := p.Encode()
	require.NoError(t, err)
	var again Planes
	require.NoError(t, json.Unmarshal(data, &again))
	require.Equal(t, *p, again)
}

func TestDivergence(t *testing.T) {
	whole := [][]float32{LogProbs([]float32{0, 0}), LogProbs([]float32{1000, 1000})}
	require.InDelta(t, math.Log(0.5), whole[1][0], 1e-6)
	require.Zero(t, Divergence(whole, whole))
	other := [][]float32{LogProbs([]float32{float32(math.Log(3)), 0}), whole[1]}
	require.InDelta(t, 0.5*(0.5*math.Log(0.5/0.75)+0.5*math.Log(0.5/0.25)), Divergence(whole, other), 1e-6)
}
