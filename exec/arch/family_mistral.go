package arch

// mistral is llama with a sliding window in every layer.
var mistral = Family{
	name: "mistral", hf: []string{"mistral"},
	defaults: map[string]string{"sliding_window": "4096", "num_key_value_heads": "8"},
	describe: func(h *Hyper, s *Spec) error {
		s.setWindows(h, func(int) bool { return true })
		return nil
	},
}

// mixtral is mistral with routed experts instead of the MLP.
var mixtral = Family{
	name: "mixtral", hf: []string{"mixtral"},
	defaults: map[string]string{"rms_norm_eps": "1e-5", "rope_theta": "1e6", "num_key_value_heads": "8", "num_local_experts": "8", "num_experts_per_tok": "2"},
	describe: func(h *Hyper, s *Spec) error {
		s.setWindows(h, func(int) bool { return true })
		s.NormTopK = true
		return nil
	},
	names: map[string]string{
		"ffn_gate_inp":  "block_sparse_moe.gate",
		"ffn_gate_exps": "block_sparse_moe.experts.%d.w1",
		"ffn_up_exps":   "block_sparse_moe.experts.%d.w3",
		"ffn_down_exps": "block_sparse_moe.experts.%d.w2",
	},
}

// ministral3 is llama whose queries grow with the position. GGUF files of it and of Mistral Small
// share a name.
var ministral3 = Family{
	name: "ministral3", hf: []string{"ministral3"}, gguf: []string{"mistral3"}, interleave: true,
	defaults: map[string]string{
		"rms_norm_eps": "1e-5", "head_dim": "128", "num_key_value_heads": "8", "rope_parameters": `{"type": "yarn", "rope_theta": 1000000, "factor": 16,
			"original_max_position_embeddings": 16384, "beta_fast": 32, "beta_slow": 1, "mscale_all_dim": 1, "mscale": 1, "llama_4_scaling_beta": 0.1}`,
	},
	describe: func(h *Hyper, s *Spec) error {
		s.setWindows(h, func(int) bool { return true })
		return nil
	},
}
