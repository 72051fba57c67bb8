package arch

// Llama covers Llama 2, 3, 3.1 and 3.2 and the many models with the same network. GGUF
// files of mixtral and mistral use its name too.
var Llama = Family{
	name: "llama", hf: []string{"llama"}, gguf: []string{"llama"}, interleave: true,
	complete: func(h *Hyper) {
		if !h.GGUF {
			h.Window = 0 // transformers has none for this name
		}
	},
	describe: func(h *Hyper, s *Spec) error {
		s.setWindows(h, func(int) bool { return true })
		s.NormTopK = true // for the expert models with this name
		return nil
	},
}

// ernie45 is llama with neighbouring rotary pairs in every file.
var ernie45 = Family{
	name: "ernie4_5", hf: []string{"ernie4_5"}, gguf: []string{"ernie4_5"}, adjacent: true,
	defaults: map[string]string{"rms_norm_eps": "1e-5", "rope_theta": "500000"},
	describe: func(*Hyper, *Spec) error { return nil },
}

// granite is llama with four multipliers: for the embedding, the attention scores, the
// residual branches and the logits.
var granite = Family{
	name: "granite", hf: []string{"granite"}, gguf: []string{"granite"}, interleave: true,
	defaults: map[string]string{"attention_multiplier": "1"},
	describe: func(*Hyper, *Spec) error { return nil },
}

// hunyuan is llama that normalizes queries and keys after their rotation.
var hunyuan = Family{
	name: "hunyuan", hf: []string{"hunyuan_v1_dense"}, gguf: []string{"hunyuan-dense"},
	defaults: map[string]string{"rms_norm_eps": "1e-5"},
	describe: func(_ *Hyper, s *Spec) error {
		s.QKNorm = QKNormRotated
		return nil
	},
	names: map[string]string{
		"attn_q_norm": "self_attn.query_layernorm",
		"attn_k_norm": "self_attn.key_layernorm",
	},
}

// internlm2 is llama with other tensor names, and with queries, keys and values fused per
// KV head.
var internlm2 = Family{
	name: "internlm2", hf: []string{"internlm2"}, gguf: []string{"internlm2"},
	interleave: true, QKV: QKVPerKV,
	describe: func(*Hyper, *Spec) error { return nil },
	names: map[string]string{
		"token_embd":  "model.tok_embeddings",
		"output":      "output",
		"attn_norm":   "attention_norm",
		"attn_qkv":    "attention.wqkv",
		"attn_output": "attention.wo",
		"ffn_norm":    "ffn_norm",
		"ffn_gate":    "feed_forward.w1",
		"ffn_up":      "feed_forward.w3",
		"ffn_down":    "feed_forward.w2",
	},
}

// seedOSS is llama with biases for queries, keys and values.
var seedOSS = Family{
	name: "seed_oss", hf: []string{"seed_oss"}, gguf: []string{"seed_oss"},
	defaults:  map[string]string{"head_dim": "128"},
	ggufNames: map[string]string{"ffn_norm": "post_attention_norm"},
	describe:  func(*Hyper, *Spec) error { return nil },
}

// smollm3 is llama without rotation in every fourth layer. Its optional sliding window is
// in the layers without rotation.
var smollm3 = Family{
	name: "smollm3", hf: []string{"smollm3"}, gguf: []string{"smollm3"}, interleave: true,
	defaults: map[string]string{"rope_theta": "2e6", "no_rope_layer_interval": "4"},
	describe: func(h *Hyper, s *Spec) error {
		if h.NoRope == nil { // GGUF files omit it
			for l := 3; l < len(s.Layers); l += 4 {
				s.Layers[l].Rope = -1
			}
		}
		s.setWindows(h, func(l int) bool { return h.usesWindow() && s.Layers[l].Rope < 0 })
		return nil
	},
}
