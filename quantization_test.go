package llmrun_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestQuantizationLoss compares the loss of quantized weights, activations, keys and values
// with the promises of docs/results/accuracy.md, on a part of the text.
func TestQuantizationLoss(t *testing.T) {
	t.Parallel()
	few := portable() || testing.Short()
	tokens := 768
	if few {
		tokens = 128
	}
	ids := validationIDs(t)[:tokens]
	ppl := func(o llmrun.Options) float64 {
		p, err := open(t, demoModel, o).Perplexity(context.Background(), ids, llmrun.PerplexityOptions{Context: tokens})
		require.NoError(t, err)
		return p.PPL
	}
	exact := ppl(llmrun.Options{})
	cases := []struct {
		name    string
		options llmrun.Options
		most    float64 // largest permitted increase of perplexity
	}{
		{"k8v8", llmrun.Options{Memory: llmrun.MemoryOptions{KV: "k8v8"}}, 0.005},
		{"q8", llmrun.Options{Quantize: "q8", Memory: llmrun.MemoryOptions{KV: "f32"}}, 0.005},
		{"q4 and k8v8", llmrun.Options{Quantize: "q4"}, 0.05},
		{"f16", llmrun.Options{Memory: llmrun.MemoryOptions{KV: "f16"}}, 0.001},
		{"k8f8", llmrun.Options{Memory: llmrun.MemoryOptions{KV: "k8f8"}}, 0.01},
		{"q4", llmrun.Options{Quantize: "q4", Memory: llmrun.MemoryOptions{KV: "f32"}}, 0.05},
		{"k4v8", llmrun.Options{Memory: llmrun.MemoryOptions{KV: "k4v8"}}, 0.02},
		{"nf4", llmrun.Options{Quantize: "nf4", Memory: llmrun.MemoryOptions{KV: "f32"}}, 0.05},
		{"q4s", llmrun.Options{Quantize: "q4s", Memory: llmrun.MemoryOptions{KV: "f32"}}, 0.05},
		{"q4all", llmrun.Options{Quantize: "q4all", Memory: llmrun.MemoryOptions{KV: "f32"}}, 0.07},
	}
	if few {
		// Portable kernels compute the same numbers, as other tests show, and the race detector
		// looks for races only. The coarser mixes need more tokens for a significant result.
		cases = cases[:3]
	}
	for _, c := range cases {
		require.Less(t, ppl(c.options)/exact-1, c.most, c.name)
	}
	_, err := llmrun.Open(demoModel, llmrun.Options{Quantize: "q3"})
	require.True(t, llmrun.IsUnsupported(err))
	require.ErrorContains(t, err, "q8, q4, nf4, q4s, q4all")
}
