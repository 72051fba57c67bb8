package exec

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
)

// distance returns the norm of the difference relative to the norm of want.
func distance(want, got []float32) float64 {
	var difference, all float64
	for i := range want {
		difference += float64((want[i] - got[i]) * (want[i] - got[i]))
		all += float64(want[i] * want[i])
	}
	return math.Sqrt(difference / all)
}

// TestPackedWeightsAreExact writes all families with packed weights and compares values and
// logits with the same weights as floats, both for the checkpoint and for a pack made from it.
func TestPackedWeightsAreExact(t *testing.T) {
	for _, dir := range modeltest.FixtureDirs(t) {
		for _, p := range modeltest.PackVariants {
			if p.Name != "gptq" && p.Name != "awq" && filepath.Base(dir) != "llama3" {
				continue // the packing does not depend on the family
			}
			t.Run(filepath.Base(dir)+"/"+p.Name, func(t *testing.T) {
				packed, plain, values := modeltest.PackFixture(t, dir, p)
				f, err := modelfile.Open(packed, "m")
				require.NoError(t, err)
				defer func() { require.NoError(t, f.Close()) }()
				natural, err := f.InInputOrder()
				require.NoError(t, err)
				for name, want := range values {
					require.Equal(t, want, modeltest.WholeTensor(t, natural, name), name)
				}
				ids := []int32{1, 5, 3, 9, 2, 7}
				o := Options{Threads: 2, Exact: true}
				want := allLogits(t, loadModel(t, plain, "m", o), ids)
				require.Equal(t, want, allLogits(t, loadModel(t, packed, "m", o), ids))
				imported := modeltest.ImportModel(t, packed, "m")
				require.Equal(t, want, allLogits(t, loadModel(t, imported, "m.pack", o), ids))
				o.Exact = false
				quantized := allLogits(t, loadModel(t, packed, "m", o), ids)
				require.Equal(t, quantized, allLogits(t, loadModel(t, imported, "m.pack", o), ids))
				for i := range want {
					require.Less(t, distance(want[i], quantized[i]), 0.05, "quantized activations, position %d", i)
				}
			})
		}
	}
}

// TestUnsupportedPackings changes one field of quantization_config at a time.
func TestUnsupportedPackings(t *testing.T) {
	for _, c := range []struct {
		field string
		value any
		want  string
	}{
		{"quant_method", "fp8", `"fp8"`},
		{"bits", 3, "3; only [4 8]"},
		{"bits", 2, "2; only [4 8]"},
		{"bits", modeltest.Absent, "is missing"},
		{"bits", "four", "string"},
		{"group_size", -2, "-2 is neither"},
		{"group_size", 0, "0 is neither"},
		{"group_size", 1.5, "not a whole number"},
		{"checkpoint_format", "marlin", `"marlin"`},
		{"dynamic", modeltest.Fields{"+:.*down.*": modeltest.Fields{"bits": 8}}, "differ between layers"},
	} {
		q := modeltest.PackedAs{Bits: 4, Group: 128}.Config()
		q[c.field] = c.value
		if c.value == modeltest.Absent {
			delete(q, c.field)
		}
		err := openAndLoad(modeltest.WriteTinyHF(t, modeltest.TinyConfig(t, modeltest.Fields{"quantization_config": q})), "m")
		require.ErrorContains(t, err, "config.json: quantization_config")
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, map[bool]string{true: "gptq, awq and mxfp4", false: c.field}[c.field == "quant_method"])
	}
	q := modeltest.PackedAs{Bits: 4, Group: 128, AWQ: true}.Config()
	q["version"] = "gemv"
	require.ErrorContains(t, openAndLoad(modeltest.WriteTinyHF(t, modeltest.TinyConfig(t, modeltest.Fields{"quantization_config": q})), "m"), `field version: "gemv"`)
}

// TestOrderedColumnsAreStreamed streams part of a pack: the column order applies to the resident
// and the streamed rows of a matrix.
func TestOrderedColumnsAreStreamed(t *testing.T) {
	packed, _, _ := modeltest.PackFixture(t, modeltest.Fixture(t, "llama3"), modeltest.PackedAs{Bits: 4, Group: 32, Order: true})
	f := openPack(t, modeltest.ImportModel(t, packed, "m"))
	ids := []int32{1, 5, 3, 9, 2, 7}
	whole := loadPart(t, f, Options{Threads: 2})
	want := allLogits(t, whole, ids)
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 3))
		m := loadPart(t, f, Options{Threads: 2, Plan: partPlan(rng, whole.Spec)})
		require.Equal(t, want, allLogits(t, m, ids), "seed %d", seed)
		require.NoError(t, m.Replan(context.Background(), partPlan(rng, whole.Spec)))
		require.Equal(t, want, allLogits(t, m, ids), "seed %d, after another plan", seed)
		require.NotNil(t, m.weights.Layers[0].Q.Order)
	}
}
