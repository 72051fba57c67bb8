package arch

import "math"

// deepseek2 has latent attention, and experts of which some are used by every token.
var deepseek2 = Family{
	name: "deepseek2", hf: []string{"deepseek_v2", "deepseek_v3", "glm4_moe_lite"}, gguf: []string{"deepseek2"}, names: latentNames, adjacent: true,
	defaults: map[string]string{"kv_lora_rank": "512", "qk_rope_head_dim": "64"},
	typeDefaults: map[string]map[string]string{
		"deepseek_v2": {"q_lora_rank": "1536", "qk_nope_head_dim": "128", "v_head_dim": "128"},
		"deepseek_v3": {
			"q_lora_rank": "1536", "qk_nope_head_dim": "128", "v_head_dim": "128", "num_experts_per_tok": "8", "n_group": "8", "topk_group": "4",
			"routed_scaling_factor": "2.5", "norm_topk_prob": "true",
		},
		"glm4_moe_lite": {
			"rms_norm_eps": "1e-5", "q_lora_rank": "768", "qk_nope_head_dim": "192", "v_head_dim": "256", "num_experts_per_tok": "4",
			"routed_scaling_factor": "1.8", "norm_topk_prob": "true",
		},
	},
	complete: func(h *Hyper) {
		if h.GGUF && h.Rope.Kind == "yarn" {
			h.Rope.AttnFactor = 1 // the attention scale has all of it
		}
	},
	describe: func(h *Hyper, s *Spec) error {
		s.Latent = h.Latent
		all := h.Rope.MScaleAllDim
		if h.GGUF {
			all *= 10 // its files have a tenth
		}
		if h.Rope.Kind == "yarn" {
			s.AttnScale *= yarnScale(h.Rope.Factor, all)
		}
		return nil
	},
}

// minicpm3 has latent attention, and multipliers that follow from the depth and the width. GGUF files omit
// them.
var minicpm3 = Family{
	name: "minicpm3", hf: []string{"minicpm3"}, gguf: []string{"minicpm3"}, names: latentNames,
	describe: func(h *Hyper, s *Spec) error {
		s.Latent = h.Latent
		m := h.MiniCPM
		s.EmbedScale = float32(orDefault(m.Embed, 12))
		s.ResidualScale = float32(orDefault(m.Depth, 1.4) / math.Sqrt(float64(h.Layers)))
		s.LogitScale = float32(orDefault(m.Base, 256) / float64(h.Dim))
		return nil
	},
}

// multipliersMiniCPM are the values from which minicpm3 computes its multipliers; 0 = omitted.
type multipliersMiniCPM struct{ Embed, Depth, Base float64 }

var latentNames = map[string]string{
	"attn_q_a":       "self_attn.q_a_proj",
	"attn_q_a_norm":  "self_attn.q_a_layernorm",
	"attn_q_b":       "self_attn.q_b_proj",
	"attn_kv_a_mqa":  "self_attn.kv_a_proj_with_mqa",
	"attn_kv_a_norm": "self_attn.kv_a_layernorm",
	"attn_kv_b":      "self_attn.kv_b_proj",
	"attn_k_b":       "self_attn.k_b_proj",
	"attn_v_b":       "self_attn.v_b_proj",
	"ffn_gate_shexp": "mlp.shared_experts.gate_proj",
	"ffn_up_shexp":   "mlp.shared_experts.up_proj",
	"ffn_down_shexp": "mlp.shared_experts.down_proj",
}
