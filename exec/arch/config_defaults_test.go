package arch_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/internal/modeltest"
)

// sparse returns the spec of a file with the sizes of a small model, other fields, and nothing else.
func sparse(t *testing.T, family string, fields modeltest.Fields) *arch.Spec {
	all := modeltest.Fields{
		"model_type": family, "hidden_size": 512, "num_hidden_layers": 12, "num_attention_heads": 8, "intermediate_size": 256,
		"vocab_size": 512, "max_position_embeddings": 65536,
	}
	for key, v := range fields {
		if all[key] = v; v == absent {
			delete(all, key)
		}
	}
	text, err := json.Marshal(all)
	require.NoError(t, err)
	s, err := specOf(text)
	require.NoError(t, err, "%s", family)
	return s
}

const absent = "absent" // a field that a file does not have

// TestFilesThatSayLittle checks what the reference implementation takes where files omit fields, or name them anew.
func TestFilesThatSayLittle(t *testing.T) {
	attends := func(s *arch.Spec) (layers []int) {
		for l := range s.Layers {
			if s.Layers[l].Mixer.Attends() {
				layers = append(layers, l)
			}
		}
		return layers
	}
	windows := func(s *arch.Spec) (without []int) {
		for l := range s.Layers {
			if s.Layers[l].Window == 0 {
				without = append(without, l)
			}
		}
		return without
	}
	for _, family := range []string{"qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"} {
		s := sparse(t, family, nil)
		require.Equal(t, []int{3, 7, 11}, attends(s), family)
		require.Equal(t, []int{256, 64, 4, 128, 128, 16, 32}, []int{
			s.HeadDim, s.Ropes[0].Dim, s.Recurrence.Taps, s.Recurrence.Key, s.Recurrence.Value, s.Recurrence.Groups, s.Recurrence.Heads,
		}, family)
	}
	require.Equal(t, []int{512, 10}, []int{sparse(t, "qwen3_next", nil).Experts, sparse(t, "qwen3_next", nil).ExpertsUsed})
	require.Equal(t, []int{256, 8}, []int{sparse(t, "qwen3_5_moe_text", nil).Experts, sparse(t, "qwen3_5_moe_text", nil).ExpertsUsed})
	require.Zero(t, sparse(t, "qwen3_5_text", nil).Experts)

	s := sparse(t, "gemma3n_text", modeltest.Fields{"num_hidden_layers": 20, "num_kv_shared_layers": 5})
	require.Equal(t, []int{4, 9, 14, 19}, windows(s))
	require.Equal(t, []int{512, 256, 4, 64}, []int{s.Layers[0].Window, s.PerLayer, s.AltUp.Streams, s.LaurelRank})
	require.Equal(t, float32(30), s.FinalSoftcap)
	require.True(t, s.Layers[9].Sparse && !s.Layers[10].Sparse)
	require.InDelta(t, 1.6448536, s.Layers[0].Deviations, 1e-6)
	require.InDelta(t, math.Pow(1e6, -2.0/256), s.Ropes[0].Freq[1], 1e-6)
	require.InDelta(t, math.Pow(1e4, -2.0/256), s.Ropes[1].Freq[1], 1e-6)
	s = sparse(t, "gemma3n_text", modeltest.Fields{"num_kv_shared_layers": 5, "rope_parameters": modeltest.Fields{
		"full_attention": modeltest.Fields{"rope_type": "default"}, "sliding_attention": modeltest.Fields{"rope_type": "default"},
	}})
	require.InDelta(t, math.Pow(1e4, -2.0/256), s.Ropes[1].Freq[1], 1e-6)

	s = sparse(t, "gemma4_text", modeltest.Fields{"num_hidden_layers": 14})
	require.Equal(t, []int{5, 11, 13}, windows(s), "the last layer has no window")
	require.Equal(t, []int{512, 256, 512, 256}, []int{s.Layers[0].Window, s.Layers[0].HeadDim, s.Layers[5].HeadDim, s.PerLayer})
	require.Zero(t, sparse(t, "gemma4_text", modeltest.Fields{"num_experts": 8, "enable_moe_block": false}).Experts)

	s = sparse(t, "gpt_oss", modeltest.Fields{"num_local_experts": 8})
	require.Equal(t, []int{64, 8, 4, 131072}, []int{s.HeadDim, s.Layers[0].KVHeads, s.ExpertsUsed, s.Context})
	require.Equal(t, 65536, sparse(t, "gpt_oss", modeltest.Fields{"num_local_experts": 8, "rope_scaling": modeltest.Fields{"rope_type": "default"}}).Context)

	s = sparse(t, "ministral3", modeltest.Fields{"hidden_size": 1024})
	require.Equal(t, []int{128, 8, 262144}, []int{s.HeadDim, s.Layers[0].KVHeads, s.Context})
	require.Equal(t, arch.QueryGrowth{Beta: 0.1, Every: 16384}, s.QueryGrowth)

	s = sparse(t, "lfm2_moe", modeltest.Fields{"layer_types": []string{
		"conv", "conv", "full_attention", "conv", "conv", "conv", "full_attention", "conv", "conv", "conv", "full_attention", "conv",
	}})
	require.Equal(t, []int{32, 4, 8}, []int{s.Experts, s.ExpertsUsed, s.Layers[2].KVHeads})
	require.Equal(t, []bool{false, false, true}, routed(s)[:3])

	kinds := []string{"linear_attention", "full_attention", "mlp", "linear_attention"}
	s = sparse(t, "nemotron_h", modeltest.Fields{"layers_block_type": kinds, "num_hidden_layers": absent})
	require.Equal(t, []arch.Mixer{arch.Recurrent, arch.Attention, arch.NoMixer, arch.Recurrent}, mixers(s))
	require.Equal(t, []int{4, 128, 64, 128, 8}, []int{s.Recurrence.Taps, s.Recurrence.Heads, s.Recurrence.Value, s.Recurrence.Key, s.Layers[1].KVHeads})
	s = sparse(t, "nemotron_h", modeltest.Fields{"hybrid_override_pattern": "M-*-", "num_hidden_layers": absent})
	require.Equal(t, []arch.Mixer{arch.Recurrent, arch.NoMixer, arch.Attention, arch.NoMixer}, mixers(s))

	kinds = []string{"linear_attention", "full_attention"}
	s = sparse(t, "granitemoehybrid", modeltest.Fields{"num_hidden_layers": 2, "layer_types": kinds, "mamba_n_heads": 16})
	require.Equal(t, []arch.Mixer{arch.Recurrent, arch.Attention}, mixers(s))
	require.Equal(t, []int{64, -1}, []int{s.Recurrence.Value, s.Layers[1].Rope}, "an inner width of twice 512, and no rotation")
	s = sparse(t, "granitemoehybrid", modeltest.Fields{"num_hidden_layers": 2, "layer_types": kinds, "mamba_n_heads": 16, "position_embedding_type": "rope"})
	require.Zero(t, s.Layers[1].Rope)

	s = sparse(t, "falcon_h1", modeltest.Fields{"mamba_d_ssm": 768, "mamba_n_heads": 24, "mamba_d_head": "auto"})
	require.Equal(t, []int{32, 256, 8}, []int{s.Recurrence.Value, s.Recurrence.Key, s.Layers[0].KVHeads})

	s = sparse(t, "deepseek_v3", modeltest.Fields{"moe_intermediate_size": 32})
	require.Equal(t, arch.Latent{Rank: 512, QRank: 1536, Nope: 128, Rope: 64, Value: 128}, s.Latent)
	require.Equal(t, arch.ExpertGroups{Count: 8, Used: 4, Best: 2}, s.Groups)
	require.True(t, s.NormTopK && s.Interleave && s.RoutedScale == 2.5)
	require.False(t, sparse(t, "deepseek_v3", modeltest.Fields{"rope_interleave": false}).Interleave)
	s = sparse(t, "glm4_moe_lite", modeltest.Fields{"moe_intermediate_size": 32})
	require.Equal(t, arch.Latent{Rank: 512, QRank: 768, Nope: 192, Rope: 64, Value: 256}, s.Latent)
	require.Equal(t, []any{float32(1e-5), float32(1.8), 64, 4}, []any{s.Norm.Eps, s.RoutedScale, s.Experts, s.ExpertsUsed})

	s = sparse(t, "minicpm3", modeltest.Fields{"scale_depth": nil, "dim_model_base": nil})
	require.Equal(t, arch.Latent{Rank: 256, QRank: 768, Nope: 64, Rope: 32, Value: 64}, s.Latent)
	require.Equal(t, []float32{12, 1, 1, 1e-5}, []float32{s.EmbedScale, s.ResidualScale, s.LogitScale, s.Norm.Eps})

	require.Equal(t, 4096, sparse(t, "cohere2", nil).Layers[0].Window)
	require.Equal(t, []int{128, 8}, []int{sparse(t, "seed_oss", nil).HeadDim, sparse(t, "seed_oss", nil).Layers[0].KVHeads})
	require.Equal(t, 2, sparse(t, "glm4", nil).Layers[0].KVHeads)
	require.Equal(t, []int{128, 2}, []int{sparse(t, "ernie4_5", nil).HeadDim, sparse(t, "ernie4_5", nil).Layers[0].KVHeads})
}

func mixers(s *arch.Spec) (all []arch.Mixer) {
	for l := range s.Layers {
		all = append(all, s.Layers[l].Mixer)
	}
	return all
}

// TestAnotherClampedActivation refuses a steepness that the kernels do not have.
func TestAnotherClampedActivation(t *testing.T) {
	text, err := json.Marshal(modeltest.Fields{
		"model_type": "gpt_oss", "hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8, "intermediate_size": 256,
		"vocab_size": 512, "max_position_embeddings": 4096, "num_local_experts": 8, "swiglu_alpha": 1.5,
	})
	require.NoError(t, err)
	_, err = specOf(text)
	require.ErrorIs(t, err, arch.ErrUnsupported)
	require.ErrorContains(t, err, "swiglu_alpha: 1.5")
}
