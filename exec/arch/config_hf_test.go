package arch_test

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/internal/modeltest"
)

// fixtureSpec returns the Spec of a fixture from the named config.json.
func fixtureSpec(t *testing.T, dir, config string) *arch.Spec {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, config))
	require.NoError(t, err)
	spec, err := specOf(data)
	require.NoError(t, err)
	return spec
}

func specOf(config []byte) (*arch.Spec, error) {
	h, fam, err := arch.HyperFromHF("config.json", config)
	if err != nil {
		return nil, err
	}
	return fam.Spec(h)
}

func windows(s *arch.Spec) (out []int) {
	for _, l := range s.Layers {
		out = append(out, l.Window)
	}
	return out
}

func ropes(s *arch.Spec) (out []int) {
	for _, l := range s.Layers {
		out = append(out, l.Rope)
	}
	return out
}

func routed(s *arch.Spec) (out []bool) {
	for _, l := range s.Layers {
		out = append(out, l.Experts)
	}
	return out
}

// TestWindowsOfFamilies checks which layers have a window under settings that no fixture has.
func TestWindowsOfFamilies(t *testing.T) {
	types := []string{arch.FullAttention, arch.SlidingAttention, arch.SlidingAttention, arch.FullAttention}
	for _, c := range []struct {
		name, family string
		changes      modeltest.Fields
		want         []int
	}{
		{"llama, no field", "llama", nil, []int{0, 0, 0, 0}},
		{"llama has none, whatever the file says", "llama", modeltest.Fields{"sliding_window": 8}, []int{0, 0, 0, 0}},
		{"mistral, no field", "mistral", nil, []int{4096, 4096, 4096, 4096}},
		{"mixtral, no field", "mixtral", nil, []int{0, 0, 0, 0}},
		{"olmo2, no field", "olmo2", nil, []int{0, 0, 0, 0}},
		{"olmo3, no field", "olmo3", nil, []int{4096, 4096, 4096, 0}},
		{"exaone4, no field", "exaone4", nil, []int{4096, 4096, 4096, 0}},
		{"mistral", "mistral", modeltest.Fields{"sliding_window": 8}, []int{8, 8, 8, 8}},
		{"mistral, null", "mistral", modeltest.Fields{"sliding_window": nil}, []int{0, 0, 0, 0}},
		{"listed types count", "mistral", modeltest.Fields{"sliding_window": 8, "layer_types": types}, []int{0, 8, 8, 0}},
		{"qwen2, off", "qwen2", modeltest.Fields{"sliding_window": 8, "use_sliding_window": false, "max_window_layers": 0}, []int{0, 0, 0, 0}},
		{"qwen2, from a layer on", "qwen2", modeltest.Fields{"sliding_window": 8, "use_sliding_window": true, "max_window_layers": 2}, []int{0, 0, 8, 8}},
		{"qwen2, default start", "qwen2", modeltest.Fields{"sliding_window": 8, "use_sliding_window": true}, []int{0, 0, 0, 0}},
		{"qwen3", "qwen3", modeltest.Fields{"sliding_window": 8, "use_sliding_window": true, "max_window_layers": 1}, []int{0, 8, 8, 8}},
		{"qwen2_moe", "qwen2_moe", modeltest.Fields{"sliding_window": 8, "use_sliding_window": true, "max_window_layers": 3}, []int{8, 0, 8, 0}},
		{"qwen3_moe", "qwen3_moe", modeltest.Fields{"sliding_window": 8, "use_sliding_window": true, "max_window_layers": 3}, []int{8, 8, 8, 8}},
		{"gemma2", "gemma2", modeltest.Fields{"sliding_window": 8}, []int{8, 0, 8, 0}},
		{"gemma3, default pattern", "gemma3_text", modeltest.Fields{"sliding_window": 8}, []int{8, 8, 8, 8}},
		{"gemma3, pattern", "gemma3_text", modeltest.Fields{"sliding_window": 8, "sliding_window_pattern": 2}, []int{8, 0, 8, 0}},
		{"gemma3, newer name", "gemma3_text", modeltest.Fields{"sliding_window": 8, "_sliding_window_pattern": 3}, []int{8, 8, 0, 8}},
		{"gemma3, types", "gemma3_text", modeltest.Fields{"sliding_window": 8, "layer_types": types}, []int{0, 8, 8, 0}},
		{"smollm3", "smollm3", modeltest.Fields{"sliding_window": 8, "use_sliding_window": true, "no_rope_layers": []int{1, 0, 0, 1}}, []int{0, 8, 8, 0}},
		{"phi3", "phi3", modeltest.Fields{"sliding_window": 8}, []int{8, 8, 8, 8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec, err := specOf(modeltest.ConfigOf(t, c.family, c.changes))
			require.NoError(t, err)
			require.Equal(t, c.want, windows(spec))
		})
	}
}

// TestRotationOfLayers checks each layer's rotary table and the tables' parameters.
func TestRotationOfLayers(t *testing.T) {
	linear := modeltest.Fields{"rope_type": "linear", "factor": 8.0}
	gemma3, err := specOf(modeltest.ConfigOf(t, "gemma3_text", modeltest.Fields{"rope_scaling": linear, "rope_theta": modeltest.Absent, "sliding_window_pattern": 2}))
	require.NoError(t, err)
	require.Equal(t, []int{1, 0, 1, 0}, ropes(gemma3))
	require.InEpsilon(t, 1.0/8, gemma3.Ropes[0].Freq[0], 1e-6, "scaling applies to full layers")
	require.InEpsilon(t, 1.0, gemma3.Ropes[1].Freq[0], 1e-6, "and to no others")
	require.InEpsilon(t, 0.1778279/8, gemma3.Ropes[0].Freq[1], 1e-5, "base 1e6 unless the file says another")

	smollm3, err := specOf(modeltest.ConfigOf(t, "smollm3", modeltest.Fields{"no_rope_layer_interval": 2}))
	require.NoError(t, err)
	require.Equal(t, []int{0, -1, 0, -1}, ropes(smollm3))

	nested, err := specOf(modeltest.ConfigOf(t, "llama", modeltest.Fields{
		"rope_theta":      modeltest.Absent,
		"rope_parameters": modeltest.Fields{"rope_type": "linear", "factor": 2, "rope_theta": 100, "partial_rotary_factor": 0.5},
	}))
	require.NoError(t, err)
	require.InEpsilonSlice(t, []float32{0.5, 0.1581139, 0.05, 0.01581139}, nested.Ropes[0].Freq, 1e-6)

	phi3, err := specOf(modeltest.ConfigOf(t, "phi3", modeltest.Fields{"partial_rotary_factor": 0.75}))
	require.NoError(t, err)
	require.Equal(t, 12, phi3.Ropes[0].Dim)

	outer, err := specOf(modeltest.ConfigOf(t, "phi3", modeltest.Fields{"original_max_position_embeddings": 64, "rope_scaling": modeltest.Fields{
		"type": "longrope", "original_max_position_embeddings": 32,
		"short_factor": []int{1, 1, 1, 1, 1, 1, 1, 1}, "long_factor": []int{2, 2, 2, 2, 2, 2, 2, 2},
	}}))
	require.NoError(t, err)
	require.Equal(t, 64, outer.Ropes[0].Switch, "the field outside the scaling counts")

	early, err := specOf(modeltest.ConfigOf(t, "phi3", modeltest.Fields{"rope_scaling": modeltest.Fields{
		"type": "yarn", "short_factor": []int{1, 1, 1, 1, 1, 1, 1, 1}, "long_factor": []int{2, 2, 2, 2, 2, 2, 2, 2},
	}}))
	require.NoError(t, err)
	require.NotNil(t, early.Ropes[0].LongFreq, "longrope under its first name")

	stretched, err := specOf(modeltest.ConfigOf(t, "qwen2", modeltest.Fields{"rope_scaling": modeltest.Fields{
		"type": "yarn", "factor": 4, "original_max_position_embeddings": 512,
	}}))
	require.NoError(t, err)
	require.Equal(t, 2048, stretched.Context)
}

// TestExpertsOfFamilies checks which layers have experts and whether their weights are
// normalized.
func TestExpertsOfFamilies(t *testing.T) {
	moe := func(more modeltest.Fields) modeltest.Fields {
		all := modeltest.Fields{"num_experts": 8, "num_experts_per_tok": 2}
		maps.Copy(all, more)
		return all
	}
	for _, c := range []struct {
		name, family string
		changes      modeltest.Fields
		routed       []bool
		norm         bool
	}{
		{"mixtral", "mixtral", moe(nil), []bool{true, true, true, true}, true},
		{"qwen2_moe", "qwen2_moe", moe(nil), []bool{true, true, true, true}, false},
		{"qwen2_moe, every other", "qwen2_moe", moe(modeltest.Fields{"decoder_sparse_step": 2}), []bool{false, true, false, true}, false},
		{"qwen2_moe, dense ones", "qwen2_moe", moe(modeltest.Fields{"mlp_only_layers": []int{0, 3}, "norm_topk_prob": true}), []bool{false, true, true, false}, true},
		{"qwen3_moe, not said", "qwen3_moe", moe(nil), []bool{true, true, true, true}, false},
		{"qwen3_moe, said", "qwen3_moe", moe(modeltest.Fields{"norm_topk_prob": true}), []bool{true, true, true, true}, true},
		{"olmoe", "olmoe", moe(modeltest.Fields{"norm_topk_prob": true}), []bool{true, true, true, true}, true},
		{"llama without experts", "llama", nil, []bool{false, false, false, false}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec, err := specOf(modeltest.ConfigOf(t, c.family, c.changes))
			require.NoError(t, err)
			require.Equal(t, c.routed, routed(spec))
			require.Equal(t, c.norm, spec.NormTopK)
		})
	}
}

// TestSettingsOfFamilies checks single settings that no fixture has.
func TestSettingsOfFamilies(t *testing.T) {
	for _, c := range []struct {
		name, family string
		changes      modeltest.Fields
		check        func(t *testing.T, s *arch.Spec)
	}{
		{"neox, serial", "gpt_neox", modeltest.Fields{"use_parallel_residual": false, "rotary_pct": 0.5}, func(t *testing.T, s *arch.Spec) {
			require.Equal(t, arch.Serial, s.Parallel)
			require.Equal(t, 8, s.Ropes[0].Dim)
		}},
		{"neox, defaults", "gpt_neox", nil, func(t *testing.T, s *arch.Spec) {
			require.Equal(t, arch.ParallelTwoNorms, s.Parallel)
			require.Equal(t, 4, s.Ropes[0].Dim)
			require.Equal(t, float32(1e-5), s.Norm.Eps)
		}},
		{"phi, norms of queries", "phi", modeltest.Fields{"qk_layernorm": true}, func(t *testing.T, s *arch.Spec) {
			require.Equal(t, arch.QKNormHead, s.QKNorm)
			require.True(t, s.Norm.Layer)
			require.Equal(t, 8, s.Ropes[0].Dim, "half of each head unless the file says another part")
		}},
		{"olmoe, clip", "olmoe", modeltest.Fields{"clip_qkv": 3.5}, func(t *testing.T, s *arch.Spec) { require.Equal(t, float32(3.5), s.ClipQKV) }},
		{"gemma, activation by its early name", "gemma", modeltest.Fields{"hidden_act": "gelu"}, func(t *testing.T, s *arch.Spec) {
			require.Equal(t, arch.GELUTanh, s.Act)
		}},
		{"gemma, default head size", "gemma", modeltest.Fields{"head_dim": modeltest.Absent}, func(t *testing.T, s *arch.Spec) { require.Equal(t, 256, s.HeadDim) }},
		{"gemma2, caps by default", "gemma2", nil, func(t *testing.T, s *arch.Spec) {
			require.Equal(t, []float32{50, 30}, []float32{s.AttnSoftcap, s.FinalSoftcap})
			require.Equal(t, float32(1.0/16), s.AttnScale)
		}},
		{"gemma2, no caps", "gemma2", modeltest.Fields{"attn_logit_softcapping": nil, "final_logit_softcapping": nil}, func(t *testing.T, s *arch.Spec) {
			require.Equal(t, []float32{0, 0}, []float32{s.AttnSoftcap, s.FinalSoftcap})
		}},
		{"granite, scale by default", "granite", nil, func(t *testing.T, s *arch.Spec) { require.Equal(t, float32(1), s.AttnScale) }},
		{"lfm2, attending layers by number", "lfm2", modeltest.Fields{"full_attn_idxs": []int{1, 3}}, func(t *testing.T, s *arch.Spec) {
			require.Equal(t, []arch.Mixer{arch.ShortConv, arch.Attention, arch.ShortConv, arch.Attention},
				[]arch.Mixer{s.Layers[0].Mixer, s.Layers[1].Mixer, s.Layers[2].Mixer, s.Layers[3].Mixer})
			require.Equal(t, 3, s.ConvTaps)
		}},
		{
			"lfm2, tied by its early name", "lfm2",
			modeltest.Fields{"full_attn_idxs": []int{}, "tie_embedding": true, "tie_word_embeddings": false},
			func(t *testing.T, s *arch.Spec) { require.True(t, s.Tied) },
		},
		{"key heads, null", "llama", modeltest.Fields{"num_key_value_heads": nil}, func(t *testing.T, s *arch.Spec) { require.Equal(t, 4, s.Layers[0].KVHeads) }},
		{"head size, null", "mixtral", modeltest.Fields{"head_dim": nil, "hidden_size": 128}, func(t *testing.T, s *arch.Spec) { require.Equal(t, 32, s.HeadDim) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec, err := specOf(modeltest.ConfigOf(t, c.family, c.changes))
			require.NoError(t, err)
			c.check(t, spec)
		})
	}
}

// TestMinimalGemma3 reads the few fields that the published 4B model sets, nested in the
// config.json of a model with vision.
func TestMinimalGemma3(t *testing.T) {
	spec, err := specOf([]byte(`{"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
		"intermediate_size": 10240, "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024}}`))
	require.NoError(t, err)
	require.Equal(t, []int{8, 4, 256, 262208, 131072}, []int{spec.Heads, spec.Layers[0].KVHeads, spec.HeadDim, spec.Vocab, spec.Context})
	require.Equal(t, []int{1024, 0}, []int{spec.Layers[4].Window, spec.Layers[5].Window})
	require.Equal(t, float32(1.0/16), spec.AttnScale)
	require.Equal(t, arch.GELUTanh, spec.Act)
}

// TestDefaultsOfFamilies checks what files mean that leave out a field, because its value is the one that transformers
// has for the model_type.
func TestDefaultsOfFamilies(t *testing.T) {
	for family, want := range map[string]float32{
		"llama": 1e-6, "mistral": 1e-6, "qwen2": 1e-6, "granite": 1e-6, "mixtral": 1e-5, "phi3": 1e-5, "olmo2": 1e-5, "olmo3": 1e-5,
		"olmoe": 1e-5, "ministral3": 1e-5, "exaone4": 1e-5, "hunyuan_v1_dense": 1e-5, "glm4": 1.5625e-7, "seed_oss": 1e-6,
	} {
		spec, err := specOf(modeltest.ConfigOf(t, family, modeltest.Fields{"rms_norm_eps": modeltest.Absent}))
		require.NoError(t, err)
		require.Equal(t, want, spec.Norm.Eps, family)
		spec, err = specOf(modeltest.ConfigOf(t, family, modeltest.Fields{"rms_norm_eps": 0.25}))
		require.NoError(t, err)
		require.Equal(t, float32(0.25), spec.Norm.Eps, family)
	}
	// The second frequency is 1/base^(2/dim).
	for family, base := range map[string]float64{"llama": 1e4, "mixtral": 1e6, "olmo2": 1e4, "olmo3": 5e5} {
		spec, err := specOf(modeltest.ConfigOf(t, family, modeltest.Fields{"rope_theta": modeltest.Absent}))
		require.NoError(t, err)
		require.InEpsilon(t, math.Pow(base, -2/float64(spec.Ropes[0].Dim)), float64(spec.Ropes[0].Freq[1]), 1e-6, family)
	}
}

// TestDefaultsOfLayers checks the same for the fields that decide what layers compute.
func TestDefaultsOfLayers(t *testing.T) {
	const none = modeltest.Absent
	angle := func(base float64, dim int) float64 { return math.Pow(base, -2/float64(dim)) }
	ones := []float64{1, 1, 1, 1, 1, 1, 1, 1}
	latent := modeltest.Fields{"num_key_value_heads": none, "head_dim": none, "n_routed_experts": 64, "moe_intermediate_size": 32}
	attention := []string{"attention", "attention", "attention", "attention"}
	for _, c := range []struct {
		family  string
		changes modeltest.Fields
		check   func(t *testing.T, s *arch.Spec)
	}{
		{"cohere2", modeltest.Fields{"head_dim": none}, func(t *testing.T, s *arch.Spec) {
			require.Equal(t, []int{4096, 4096, 4096, 0}, windows(s))
			require.Equal(t, []int{0, 0, 0, -1}, ropes(s))
		}},
		{"qwen2", modeltest.Fields{"use_sliding_window": true, "max_window_layers": 2}, func(t *testing.T, s *arch.Spec) { require.Equal(t, []int{0, 0, 4096, 4096}, windows(s)) }},
		{"qwen3", modeltest.Fields{"use_sliding_window": true, "max_window_layers": 3}, func(t *testing.T, s *arch.Spec) { require.Equal(t, []int{0, 0, 0, 4096}, windows(s)) }},
		{"qwen3", nil, func(t *testing.T, s *arch.Spec) { require.Equal(t, []int{0, 0, 0, 0}, windows(s)) }},
		{"qwen2_moe", modeltest.Fields{"use_sliding_window": true, "num_experts": 4, "num_experts_per_tok": 2}, func(t *testing.T, s *arch.Spec) { require.Equal(t, []int{4096, 0, 4096, 0}, windows(s)) }},
		{"qwen3_moe", modeltest.Fields{"use_sliding_window": true, "num_experts": 4, "num_experts_per_tok": 2}, func(t *testing.T, s *arch.Spec) { require.Equal(t, []int{4096, 4096, 4096, 4096}, windows(s)) }},
		{"seed_oss", modeltest.Fields{"head_dim": none}, func(t *testing.T, s *arch.Spec) { require.Equal(t, 128, s.HeadDim) }},
		{"mistral", modeltest.Fields{"num_attention_heads": 16, "num_key_value_heads": none}, func(t *testing.T, s *arch.Spec) { require.Equal(t, 8, s.Layers[0].KVHeads) }},
		{"mixtral", nil, func(t *testing.T, s *arch.Spec) { require.Equal(t, []int{8, 2}, []int{s.Experts, s.ExpertsUsed}) }},
		{"phi3", modeltest.Fields{"max_position_embeddings": 8192, "rope_scaling": modeltest.Fields{"type": "longrope", "short_factor": ones, "long_factor": ones}}, func(t *testing.T, s *arch.Spec) {
			require.Equal(t, 4096, s.Ropes[0].Switch)
		}},
		{"qwen3_next", modeltest.Fields{"head_dim": none, "num_experts": 4, "num_experts_per_tok": 2}, func(t *testing.T, s *arch.Spec) {
			require.Equal(t, []int{256, 64}, []int{s.HeadDim, s.Ropes[0].Dim})
			require.Equal(t, []int{-1, -1, -1, 0}, ropes(s))
			require.Equal(t, []int{4, 32, 16, 128, 128}, []int{s.Recurrence.Taps, s.Recurrence.Heads, s.Recurrence.Groups, s.Recurrence.Key, s.Recurrence.Value})
		}},
		{"qwen3_5_text", modeltest.Fields{"rope_parameters": modeltest.Fields{"rope_theta": 1e4, "partial_rotary_factor": 0.5}}, func(t *testing.T, s *arch.Spec) {
			require.Equal(t, 8, s.Ropes[0].Dim, "the file's own value")
			require.Equal(t, []int{-1, -1, -1, 0}, ropes(s))
		}},
		{"gemma3n_text", modeltest.Fields{"num_hidden_layers": 30, "head_dim": none, "rope_theta": none}, func(t *testing.T, s *arch.Spec) {
			require.Equal(t, []int{512, 512, 512, 512, 0, 512}, windows(s)[:6])
			require.Equal(t, []int{1, 1, 1, 1, 0, 1}, ropes(s)[:6])
			require.InEpsilon(t, angle(1e6, 256), float64(s.Ropes[0].Freq[1]), 1e-6)
			require.InEpsilon(t, angle(1e4, 256), float64(s.Ropes[1].Freq[1]), 1e-6)
			require.Equal(t, float32(30), s.FinalSoftcap)
			require.Equal(t, []int{256, 4, 64, 0, 2}, []int{s.PerLayer, s.AltUp.Streams, s.LaurelRank, s.Layers[14].KVBack, s.Layers[15].KVBack})
			for l, layer := range s.Layers {
				require.Equal(t, l < 10, layer.Sparse, l)
			}
		}},
		{"gemma4_text", modeltest.Fields{"num_hidden_layers": 12, "head_dim": none, "rope_theta": none}, func(t *testing.T, s *arch.Spec) {
			require.Equal(t, []int{512, 512, 512, 512, 512, 0, 512}, windows(s)[:7])
			require.Equal(t, []int{512, 256, 256}, []int{s.HeadDim, s.Layers[0].HeadDim, s.PerLayer})
			require.Equal(t, []int{512, 256}, []int{s.Ropes[0].Dim, s.Ropes[1].Dim})
			require.InEpsilon(t, angle(1e6, 512), float64(s.Ropes[0].Freq[1]), 1e-6)
			require.Equal(t, float32(0), s.Ropes[0].Freq[64], "three quarters do not rotate")
			require.InEpsilon(t, angle(1e4, 256), float64(s.Ropes[1].Freq[1]), 1e-6)
		}},
		{"deepseek_v3", latent, func(t *testing.T, s *arch.Spec) {
			require.Equal(t, arch.Latent{Rank: 512, QRank: 1536, Nope: 128, Rope: 64, Value: 128}, s.Latent)
			require.Equal(t, arch.ExpertGroups{Count: 8, Used: 4, Best: 2}, s.Groups)
			require.Equal(t, float32(2.5), s.RoutedScale)
			require.True(t, s.NormTopK)
			require.Equal(t, 8, s.ExpertsUsed)
		}},
		{"glm4_moe_lite", maps.Collect(func(yield func(string, any) bool) {
			for key, value := range latent {
				if !yield(key, value) {
					return
				}
			}
			yield("rms_norm_eps", none)
		}), func(t *testing.T, s *arch.Spec) {
			require.Equal(t, arch.Latent{Rank: 512, QRank: 768, Nope: 192, Rope: 64, Value: 256}, s.Latent)
			require.Equal(t, []float32{1.8, 1e-5}, []float32{s.RoutedScale, s.Norm.Eps})
			require.True(t, s.NormTopK)
			require.Equal(t, 4, s.ExpertsUsed)
		}},
		{"granitemoehybrid", modeltest.Fields{"layer_types": attention}, func(t *testing.T, s *arch.Spec) { require.Equal(t, []int{-1, -1, -1, -1}, ropes(s)) }},
		{"granitemoehybrid", modeltest.Fields{"layer_types": attention, "position_embedding_type": "rope"}, func(t *testing.T, s *arch.Spec) { require.Equal(t, []int{0, 0, 0, 0}, ropes(s)) }},
		{"granite", nil, func(t *testing.T, s *arch.Spec) { require.Equal(t, []int{0, 0, 0, 0}, ropes(s)) }},
	} {
		t.Run(c.family, func(t *testing.T) {
			spec, err := specOf(modeltest.ConfigOf(t, c.family, c.changes))
			require.NoError(t, err)
			c.check(t, spec)
		})
	}
}

// TestAttentionToLaterTokens checks the two fields that say that tokens attend to later ones. Layers that read their tokens
// in order are refused with them.
func TestAttentionToLaterTokens(t *testing.T) {
	for _, changes := range []modeltest.Fields{
		{"is_causal": false},
		{"use_bidirectional_attention": true},
		{"use_bidirectional_attention": "all"},
		{"text_config": modeltest.Fields{"is_causal": false}},
	} {
		spec, err := specOf(modeltest.ConfigOf(t, "qwen2", changes))
		require.NoError(t, err, changes)
		require.True(t, spec.Encoder.Bidirectional, changes)
		require.True(t, spec.Headless, changes)
		_, err = specOf(modeltest.ConfigOf(t, "falcon_h1", changes))
		require.ErrorIs(t, err, arch.ErrUnsupported, changes)
		require.ErrorContains(t, err, "attention to later tokens")
	}
	for _, changes := range []modeltest.Fields{{"is_causal": true}, {"is_causal": nil}, {"use_bidirectional_attention": "vision"}, {"use_bidirectional_attention": false}} {
		spec, err := specOf(modeltest.ConfigOf(t, "qwen2", changes))
		require.NoError(t, err, changes)
		require.False(t, spec.Encoder.Bidirectional, changes)
	}
}
