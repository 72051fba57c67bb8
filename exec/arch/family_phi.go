package arch

// phi2 (phi-1, phi-1.5, phi-2) computes attention and MLP from one LayerNorm, rotates a
// part of each head, and has biases in all matrices.
var phi2 = Family{
	name: "phi2", hf: []string{"phi"}, gguf: []string{"phi2"},
	defaults: map[string]string{"partial_rotary_factor": "0.5", "layer_norm_eps": "1e-5"},
	describe: func(h *Hyper, s *Spec) error {
		if h.QKNorm {
			s.QKNorm = QKNormHead
		}
		s.Norm.Layer = true
		s.Act = GELUTanh
		s.Gated = false
		s.Parallel = ParallelSharedNorm
		return nil
	},
	names: map[string]string{
		"output_norm": "model.final_layernorm",
		"attn_output": "self_attn.dense",
		"attn_q_norm": "self_attn.q_layernorm",
		"attn_k_norm": "self_attn.k_layernorm",
		"ffn_up":      "mlp.fc1",
		"ffn_down":    "mlp.fc2",
	},
}

// phi3 fuses queries, keys and values, and gate and up. Its long-context variants select
// rotary frequencies by the length of the sequence.
var phi3 = Family{
	name: "phi3", hf: []string{"phi3"}, gguf: []string{"phi3"},
	defaults: map[string]string{"rms_norm_eps": "1e-5"},
	complete: func(h *Hyper) {
		if h.Rope.Kind == "yarn" && h.Rope.Short != nil {
			h.Rope.Kind = "longrope" // the first files use this name
		}
		if !h.GGUF && h.Rope.Short != nil && h.Rope.OriginalContext == 0 {
			h.Rope.OriginalContext = 4096 // files may omit it
		}
	},
	describe: func(h *Hyper, s *Spec) error {
		s.setWindows(h, func(int) bool { return true })
		return nil
	},
	names: map[string]string{"ffn_up": "mlp.gate_up_proj"},
}
