package arch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/internal/modeltest"
)

// latentConfig returns a small config.json with latent attention and experts.
func latentConfig(t *testing.T, family string, changes modeltest.Fields) []byte {
	all := modeltest.Fields{
		"kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "moe_intermediate_size": 32,
		"n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 4, "topk_group": 2,
	}
	for key, v := range changes {
		all[key] = v
	}
	return modeltest.ConfigOf(t, family, all)
}

// TestRoutersOfLatentAttention checks which routers and layers files mean that omit them.
func TestRoutersOfLatentAttention(t *testing.T) {
	for _, c := range []struct {
		family  string
		changes modeltest.Fields
		sigmoid bool
		groups  arch.ExpertGroups
		routed  []bool
	}{
		{"deepseek_v2", nil, false, arch.ExpertGroups{}, []bool{true, true, true, true}},
		{"deepseek_v2", modeltest.Fields{"topk_method": "group_limited_greedy"}, false, arch.ExpertGroups{Count: 4, Used: 2, Best: 1}, []bool{true, true, true, true}},
		{"deepseek_v3", nil, true, arch.ExpertGroups{Count: 4, Used: 2, Best: 2}, []bool{false, false, false, true}},
		{"glm4_moe_lite", modeltest.Fields{"n_group": 1, "topk_group": 1}, true, arch.ExpertGroups{Count: 1, Used: 1, Best: 2}, []bool{false, true, true, true}},
		{
			"glm4_moe_lite",
			modeltest.Fields{"mlp_layer_types": []string{"dense", "sparse", "dense", "sparse"}},
			true,
			arch.ExpertGroups{Count: 4, Used: 2, Best: 2},
			[]bool{false, true, false, true},
		},
	} {
		s, err := specOf(latentConfig(t, c.family, c.changes))
		require.NoError(t, err)
		require.Equal(t, c.sigmoid, s.RouterSigmoid, c)
		require.Equal(t, c.groups, s.Groups, c)
		require.Equal(t, c.routed, routed(s), c)
	}
}

// TestContextOfLongFactors: factors that begin behind the stated context allow texts so many times longer; others do not.
func TestContextOfLongFactors(t *testing.T) {
	scaling := func(original int) modeltest.Fields {
		return modeltest.Fields{"max_position_embeddings": 512, "rope_scaling": modeltest.Fields{
			"type": "longrope", "original_max_position_embeddings": original,
			"short_factor": []float64{1, 1, 1, 1, 1, 1, 1, 1}, "long_factor": []float64{1, 1, 2, 3, 4, 5, 6, 7.5},
		}}
	}
	for original, want := range map[int]int{512: 3840, 128: 512} {
		s, err := specOf(modeltest.ConfigOf(t, "phi3", scaling(original)))
		require.NoError(t, err)
		require.Equal(t, want, s.Context)
		from := "field max_position_embeddings"
		if original == 512 {
			from += " is 512, and longrope scaling of its rotary positions makes it 3840"
		}
		require.Equal(t, from, s.ContextFrom)
	}
}

// TestFalconNormBeforeGate checks the order of the norm and the gate of Mamba-2 in Falcon-H1.
func TestFalconNormBeforeGate(t *testing.T) {
	sizes := modeltest.Fields{"mamba_d_conv": 4, "mamba_n_heads": 4, "mamba_n_groups": 2, "mamba_d_state": 16, "mamba_d_head": 32}
	for _, c := range []struct {
		changes modeltest.Fields
		groups  int
		first   bool
	}{
		{nil, 0, true},
		{modeltest.Fields{"mamba_rms_norm": true}, 2, true},
		{modeltest.Fields{"mamba_rms_norm": true, "mamba_norm_before_gate": false}, 2, false},
	} {
		all := modeltest.Fields{}
		for _, fields := range []modeltest.Fields{sizes, c.changes} {
			for key, v := range fields {
				all[key] = v
			}
		}
		s, err := specOf(modeltest.ConfigOf(t, "falcon_h1", all))
		require.NoError(t, err)
		require.Equal(t, c.groups, s.Recurrence.NormGroups)
		require.Equal(t, c.first, s.Recurrence.NormFirst)
	}
}

// TestFields2026AreChecked: values that would change the arithmetic unnoticed are refused by name.
func TestFields2026AreChecked(t *testing.T) {
	mamba := modeltest.Fields{"conv_kernel": 4, "num_heads": 4, "n_groups": 1, "state_size": 16}
	for field, c := range map[string]struct {
		family string
		value  any
	}{
		"time_step_limit":   {"mamba2", []float64{0, 0.5}},
		"mlp_layer_types":   {"glm4_moe_lite", []string{"dense"}},
		"layers_block_type": {"nemotron_h", []string{"mamba", "attention", "mlp", "other"}},
	} {
		changes := modeltest.Fields{field: c.value}
		for key, v := range mamba {
			changes[key] = v
		}
		_, err := specOf(latentConfig(t, c.family, changes))
		require.ErrorContains(t, err, "config.json: field "+field)
	}
	_, err := specOf(latentConfig(t, "glm4_moe_lite", modeltest.Fields{"mlp_layer_types": []string{"dense", "x", "dense", "dense"}}))
	require.ErrorContains(t, err, `field mlp_layer_types: layer 1 is "x"`)
}

// TestFieldsThatNewerFilesState: what newer files state, or state otherwise, has the meaning of the reference implementation.
func TestFieldsThatNewerFilesState(t *testing.T) {
	infinite := modeltest.Fields{"__float__": "Infinity"} // as transformers 5 writes it
	s := sparse(t, "mamba2", modeltest.Fields{"conv_kernel": 4, "num_heads": 4, "n_groups": 1, "state_size": 16, "head_dim": 32, "time_step_limit": []any{0, infinite}})
	require.Equal(t, 16, s.Recurrence.Key)

	hybrid := modeltest.Fields{"hybrid_override_pattern": "ME*E", "num_hidden_layers": absent, "n_routed_experts": 8, "num_experts_per_tok": 2}
	for key, v := range map[string]any{"n_group": 4, "topk_group": 2, "attention_bias": true, "mlp_hidden_act": "silu"} {
		hybrid[key] = v
	}
	s = sparse(t, "nemotron_h", hybrid)
	require.Equal(t, arch.ExpertGroups{Count: 4, Used: 2, Best: 2}, s.Groups)
	require.Equal(t, arch.SiLU, s.Act)
	hybrid["mlp_hidden_act"] = "relu2"
	require.Equal(t, arch.ReLU2, sparse(t, "nemotron_h", hybrid).Act)

	s = sparse(t, "granitemoehybrid", modeltest.Fields{"num_hidden_layers": 2, "mamba_n_heads": 24, "mamba_expand": 1.5})
	require.Equal(t, []arch.Mixer{arch.Recurrent, arch.Recurrent}, mixers(s), "files without types of layers have no attention")
	require.Equal(t, 32, s.Recurrence.Value)

	s = sparse(t, "gemma4_text", modeltest.Fields{"rope_parameters": modeltest.Fields{
		"full_attention":    modeltest.Fields{"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25},
		"sliding_attention": modeltest.Fields{"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0},
	}})
	require.NotZero(t, s.Ropes[0].Freq[63])
	require.Zero(t, s.Ropes[0].Freq[64], "a quarter of 512 elements turns")
	require.Equal(t, 256, s.Ropes[1].Dim)
}

// TestBiasesThatAreNotComputed: the multiplier of falcon_h1's attention is folded into products that would multiply biases too.
func TestBiasesThatAreNotComputed(t *testing.T) {
	mamba := modeltest.Fields{"mamba_d_conv": 4, "mamba_n_heads": 4, "mamba_n_groups": 2, "mamba_d_state": 16, "mamba_d_head": 32, "attention_bias": true}
	_, err := specOf(modeltest.ConfigOf(t, "falcon_h1", mamba))
	require.NoError(t, err)
	mamba["attention_in_multiplier"] = 0.5
	_, err = specOf(modeltest.ConfigOf(t, "falcon_h1", mamba))
	require.ErrorContains(t, err, "field attention_bias")
	_, err = specOf(modeltest.ConfigOf(t, "llama", modeltest.Fields{"hidden_act": "relu2"}))
	require.ErrorContains(t, err, `activation "relu2"`)
}
