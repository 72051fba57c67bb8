package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/tiering"
)

// TestClipFollowsTheNorms: the norms' gains must not scale clipped values.
func TestClipFollowsTheNorms(t *testing.T) {
	cache, err := kv.NewCache(kv.Shape{HeadDim: 2, KVHeads: []int{1}}, tiering.New(0), kv.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, cache.Close()) }()
	seq := &Sequence{kv: cache.NewSeq()}
	defer seq.kv.Close()
	require.NoError(t, seq.kv.Grow(t.Context(), 1))
	p := &pass{passState: &passState{
		m:     &Model{Spec: &arch.Spec{Heads: 1, HeadDim: 2, ClipQKV: 3, QKNorm: arch.QKNormAllHeads, AttnScale: 1}},
		n:     1,
		layer: &arch.LayerSpec{KVHeads: 1, HeadDim: 2, Rope: -1},
		w:     &weights.LayerWeights{QNorm: weights.Gain{Weight: []float32{10, 1}}, KNorm: weights.Gain{Weight: []float32{1, 10}}},
		activations: activations{
			q: []float32{5, -5}, k: []float32{5, -5}, v: []float32{9, 1},
			heads: make([]float32, 2),
		},
		batch: &Batch{runs: []run{{seq: seq, count: 1}}},
	}}
	p.prepareRow(0, 0)
	require.Equal(t, []float32{3, -1}, p.heads)
	require.Equal(t, []float32{1, -3}, p.k)
	require.Equal(t, []float32{3, 1}, p.v)
}
