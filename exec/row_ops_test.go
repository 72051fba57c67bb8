package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
)

// TestConvolutionOfOneChannel checks the short convolution by hand: its state between passes,
// the bias and the gate.
func TestConvolutionOfOneChannel(t *testing.T) {
	// Rows of B, C, x: the products B·x are 2, 6 and 20.
	inputs := []float32{1, 1, 2, 2, 10, 3, 4, 100, 5}
	p := &pass{passState: &passState{
		m:           &Model{Spec: &arch.Spec{Dim: 1, ConvTaps: 3}},
		activations: activations{conv: inputs, h: make([]float32, 3)},
		w:           &weights.LayerWeights{Conv: []float32{1, 10, 100}, ConvBias: []float32{0.5}},
	}}
	seq := &Sequence{conv: [][]float32{{7, 9}}, convNext: [][]float32{{0, 0}}}
	p.convolveChannel(run{seq: seq, count: 3}, 0)
	require.Equal(t, []float32{
		1 * (7 + 90 + 200 + 0.5), // the last two products of the previous pass
		10 * (9 + 20 + 600 + 0.5),
		100 * (2 + 60 + 2000 + 0.5),
	}, p.h)
	require.Equal(t, []float32{6, 20}, seq.convNext[0])

	p.w.ConvBias = nil
	p.convolveChannel(run{seq: seq, count: 3}, 0)
	require.Equal(t, float32(100*(2+60+2000)), p.h[2])
}

// TestClipFollowsTheNorms: the norms' gains must not scale clipped values.
func TestClipFollowsTheNorms(t *testing.T) {
	p := &pass{passState: &passState{
		m:     &Model{Spec: &arch.Spec{Heads: 1, HeadDim: 2, ClipQKV: 3, QKNorm: arch.QKNormAllHeads, AttnScale: 1}},
		n:     1,
		layer: &arch.LayerSpec{KVHeads: 1, Rope: -1},
		w:     &weights.LayerWeights{QNorm: weights.Gain{Weight: []float32{10, 1}}, KNorm: weights.Gain{Weight: []float32{1, 10}}},
		activations: activations{
			q: []float32{5, -5}, k: []float32{5, -5}, v: []float32{9, 1},
			heads: make([]float32, 2),
		},
		batch: &Batch{},
	}}
	p.prepareRow(0, 0)
	require.Equal(t, []float32{3, -1}, p.heads)
	require.Equal(t, []float32{1, -3}, p.k)
	require.Equal(t, []float32{3, 1}, p.v)
}
