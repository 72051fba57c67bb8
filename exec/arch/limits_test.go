package arch

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// smallConfig returns a config.json of two layers with changes.
func smallConfig(t *testing.T, changes map[string]any) []byte {
	t.Helper()
	all := map[string]any{
		"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2,
		"num_key_value_heads": 1, "head_dim": 8, "vocab_size": 10, "max_position_embeddings": 32,
	}
	maps.Copy(all, changes)
	data, err := json.Marshal(all)
	require.NoError(t, err)
	return data
}

// specOf returns the network of a config.json.
func specOf(t *testing.T, changes map[string]any) (*Spec, error) {
	t.Helper()
	h, family, err := HyperFromHF("config.json", smallConfig(t, changes))
	if err != nil {
		return nil, err
	}
	return family.Spec(h)
}

// TestCountsOfAFileAreBounded: a count in a file makes no list longer than its layers.
func TestCountsOfAFileAreBounded(t *testing.T) {
	h, _, err := HyperFromHF("config.json", smallConfig(t, map[string]any{"num_dense_layers": 1_000_000}))
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, h.DenseLayers)

	_, err = specOf(t, map[string]any{"mlp_only_layers": make([]int, 7)})
	require.ErrorContains(t, err, "config.json: field mlp_only_layers: 7 entries for 2 layers")
	_, err = specOf(t, map[string]any{"hybrid_override_pattern": strings.Repeat("M", maxLayers+1)})
	require.ErrorContains(t, err, "config.json: field hybrid_override_pattern: 4097 layers")
}

// TestLatentSizesDivideTensors: sizes whose product wraps around divide no tensor.
func TestLatentSizesDivideTensors(t *testing.T) {
	h := Hyper{Heads: 2, Latent: Latent{Rank: 4, Nope: 2, Value: 2}}
	require.True(t, h.SplitsLatent())
	for _, change := range []func(h *Hyper){
		func(h *Hyper) { h.Heads = 0 },
		func(h *Hyper) { h.Heads = maxHeads + 1 },
		func(h *Hyper) { h.Latent.Rank = 0 },
		func(h *Hyper) { h.Latent.Rank = maxDim + 1 },
		func(h *Hyper) { h.Latent.Nope = -1 },
		func(h *Hyper) { h.Latent.Value = 1 << 40 },
	} {
		bad := h
		change(&bad)
		require.False(t, bad.SplitsLatent(), "%+v", bad)
	}
}

// TestRotationsFitTheHeads: layers with a window have smaller heads than the others, and so need a rotary table of their
// own.
func TestRotationsFitTheHeads(t *testing.T) {
	ropes := map[string]any{"full_attention": map[string]any{"rope_theta": 1e6}}
	gemma := map[string]any{
		"model_type": "gemma4_text", "global_head_dim": 16, "layer_types": []string{SlidingAttention, FullAttention}, "sliding_window": 4,
		"rope_parameters": ropes,
	}
	_, err := specOf(t, gemma)
	require.ErrorIs(t, err, ErrModel)
	require.ErrorContains(t, err, "config.json: field rope_parameters.sliding_attention: the rotary table of layer 0 has 16 elements, its heads only 8")
	ropes["sliding_attention"] = map[string]any{"rope_theta": 1e4}
	s, err := specOf(t, gemma)
	require.NoError(t, err)
	require.Equal(t, []int{8, 16}, []int{s.Ropes[s.Layers[0].Rope].Dim, s.Ropes[s.Layers[1].Rope].Dim})

	heads := make([]float32, 8)
	require.Panics(t, func() { Rotate(heads[:4], make([]float32, 4), make([]float32, 4), false) }, "the next head")
	require.Panics(t, func() { Rotate(heads[:4], make([]float32, 4), make([]float32, 4), true) })
}
