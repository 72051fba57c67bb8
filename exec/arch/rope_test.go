package arch_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestRopeTablesMatchTheReference compares the frequencies of every fixture, in both styles of
// config.json, with the reference implementation's.
func TestRopeTablesMatchTheReference(t *testing.T) {
	for _, dir := range modeltest.FixtureDirs(t) {
		var ref struct {
			Frequencies map[string][]float32 `json:"rope_inv_freq"`
			Gains       map[string]float32   `json:"rope_attention_scaling"`
		}
		testutil.ReadJSON(t, filepath.Join(dir, "reference.json"), &ref)
		for _, config := range []string{"config.json", "config.hf5.json"} {
			if _, err := os.Stat(filepath.Join(dir, config)); err != nil {
				continue // the reference implementation of this family does not know the second style
			}
			spec := fixtureSpec(t, dir, config)
			for name, want := range ref.Frequencies {
				// Layers with a window use the second table.
				table := spec.Ropes[0]
				if filepath.Ext(name) == ".sliding_attention_inv_freq" {
					table = spec.Ropes[1]
				}
				require.InEpsilonSlice(t, want, table.Freq, 1e-5, "%s %s %s", dir, config, name)
			}
			for _, want := range ref.Gains {
				require.InEpsilon(t, want, spec.Ropes[0].Gain, 1e-6, "%s %s", dir, config)
			}
		}
	}
}

// TestRopeScaling checks the kinds and options of scaling that no fixture has. The expected
// values come from the papers' formulas, implemented in another language.
func TestRopeScaling(t *testing.T) {
	plain := []float32{1, 0.2154435, 0.04641589, 0.01, 0.002154435, 0.0004641589}
	yarn := []float32{1, 0.1615826, 0.02320794, 0.0025, 0.0005386087, 0.0001160397}
	ones := []float64{1, 1, 1, 1, 1, 1}
	twos := []float64{2, 2, 2, 2, 2, 2}
	const noSwitch = 0
	for _, c := range []struct {
		name      string
		rope      arch.RopeHyper
		freq      []float32
		gain      float32
		switching int
	}{
		{"none", arch.RopeHyper{}, plain, 1, noSwitch},
		{"none by name", arch.RopeHyper{Kind: "none", Factor: 4}, plain, 1, noSwitch},
		{"dynamic, within the context", arch.RopeHyper{Kind: "dynamic", Factor: 4}, plain, 1, noSwitch},
		{"linear", arch.RopeHyper{Kind: "linear", Factor: 4}, scaled(plain, 0.25), 1, noSwitch},
		{"tensor of divisors", arch.RopeHyper{Divisors: twos}, scaled(plain, 0.5), 1, noSwitch},
		{"divisors and a factor", arch.RopeHyper{Kind: "linear", Factor: 4, Divisors: twos}, scaled(plain, 0.125), 1, noSwitch},
		{"divisors of llama3", arch.RopeHyper{Kind: "llama3", Factor: 4, Divisors: twos}, scaled(plain, 0.5), 1, noSwitch},
		{
			"llama3",
			arch.RopeHyper{Kind: "llama3", Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalContext: 512},
			[]float32{1, 0.2154435, 0.04346877, 0.00125, 0.0002693043, 5.801986e-05},
			1, noSwitch,
		},
		{"yarn", arch.RopeHyper{Kind: "yarn", Factor: 4, OriginalContext: 256}, yarn, 1.1386294, noSwitch},
		{
			"yarn with other turns",
			arch.RopeHyper{Kind: "yarn", Factor: 4, OriginalContext: 256, BetaFast: 8, BetaSlow: 2},
			[]float32{1, 0.2154435, 0.01160397, 0.0025, 0.0005386087, 0.0001160397},
			1.1386294, noSwitch,
		},
		{
			"yarn without rounding",
			arch.RopeHyper{Kind: "yarn", Factor: 4, OriginalContext: 256, NoTruncate: true},
			[]float32{1, 0.1551371, 0.01800426, 0.0025, 0.0005386087, 0.0001160397},
			1.1386294, noSwitch,
		},
		{"yarn without a factor", arch.RopeHyper{Kind: "yarn", OriginalContext: 256}, yarn, 1.1386294, noSwitch},
		{"yarn with a gain", arch.RopeHyper{Kind: "yarn", Factor: 4, OriginalContext: 256, AttnFactor: 1.5}, yarn, 1.5, noSwitch},
		{
			"yarn with both mscales",
			arch.RopeHyper{Kind: "yarn", Factor: 4, OriginalContext: 256, MScale: 0.7, MScaleAllDim: 1.2},
			yarn, 0.94057153, noSwitch,
		},
		{"yarn with one mscale", arch.RopeHyper{Kind: "yarn", Factor: 4, OriginalContext: 256, MScale: 0.7}, yarn, 1.1386294, noSwitch},
		{"longrope", arch.RopeHyper{Kind: "longrope", OriginalContext: 64, Short: ones, Long: twos}, plain, 1.2909944, 64},
		{
			"longrope with a factor",
			arch.RopeHyper{Kind: "longrope", OriginalContext: 64, Factor: 4, Short: ones, Long: twos},
			plain, 1.1547005, 64,
		},
		{
			"longrope with a gain",
			arch.RopeHyper{Kind: "longrope", OriginalContext: 64, AttnFactor: 2, Short: ones, Long: twos},
			plain, 2, 64,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.rope.Base = 10000
			table, err := arch.NewRopeTable(&c.rope, 12, 1024)
			require.NoError(t, err)
			require.InEpsilonSlice(t, c.freq, table.Freq, 1e-6)
			require.InEpsilon(t, c.gain, table.Gain, 1e-6)
			require.Equal(t, c.switching, table.Switch)
			if c.switching != noSwitch {
				require.InEpsilonSlice(t, scaled(plain, 0.5), table.LongFreq, 1e-6)
			}
		})
	}
}

func TestRopeRefusals(t *testing.T) {
	_, err := arch.NewRopeTable(&arch.RopeHyper{Kind: "mrope", Base: 10000}, 8, 64)
	require.ErrorIs(t, err, arch.ErrUnsupported)
	require.ErrorContains(t, err, `"mrope"`)
	for _, r := range []arch.RopeHyper{
		{Base: 10000, Divisors: []float64{1, 2}},
		{Base: 10000, Kind: "longrope", Short: []float64{1}, Long: []float64{1, 1, 1, 1}},
		{Base: 10000, Kind: "longrope", Short: []float64{1, 1, 1, 1}},
	} {
		_, err := arch.NewRopeTable(&r, 8, 64)
		require.ErrorIs(t, err, arch.ErrModel)
	}
}

func scaled(values []float32, by float32) []float32 {
	out := slices.Clone(values)
	for i := range out {
		out[i] *= by
	}
	return out
}
