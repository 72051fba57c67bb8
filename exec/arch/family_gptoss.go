package arch

// gptOSS routes every MLP to experts with biases, whose activation is clamped. Every other layer has a
// sliding window, and each head of attention has a sink.
var gptOSS = Family{
	name: "gpt_oss", hf: []string{"gpt_oss"}, gguf: []string{"gpt-oss"},
	defaults: map[string]string{
		"head_dim": "64", "num_key_value_heads": "8", "num_experts_per_tok": "4", "rope_theta": "150000", "rms_norm_eps": "1e-5",
		"sliding_window": "128", "swiglu_limit": "7", "rope_parameters": `{"rope_type": "yarn", "factor": 32, "beta_fast": 32, "beta_slow": 1,
			"truncate": false, "original_max_position_embeddings": 4096}`,
	},
	complete: func(h *Hyper) {
		if h.GGUF { // its files omit both
			h.Rope.NoTruncate, h.GateLimit = true, 7
		}
	},
	describe: func(h *Hyper, s *Spec) error {
		s.Act, s.GateLimit = ClampedSiLU, float32(h.GateLimit)
		s.NormTopK = true // the softmax over the used experts alone
		s.ExpertBias, s.Sinks = true, true
		s.setWindowPattern(h, 2)
		h.Activation = "" // "silu" means the clamped one
		return nil
	},
	ggufNames: map[string]string{"ffn_norm": "post_attention_norm"},
	names: map[string]string{
		"attn_sinks":    "self_attn.sinks",
		"ffn_gate_inp":  "mlp.router",
		"ffn_gate_exps": "mlp.experts.gate_proj",
		"ffn_up_exps":   "mlp.experts.up_proj",
		"ffn_down_exps": "mlp.experts.down_proj",
	},
}

// TransposedExperts reports whether a safetensors file has the transposed matrices of experts that are not stored in MXFP4.
func (h *Hyper) TransposedExperts() bool { return h.Family == gptOSS.name && !h.GGUF }
