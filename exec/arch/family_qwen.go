package arch

// qwen2 covers Qwen1.5, 2 and 2.5: llama with biases for queries, keys and values, and an
// optional sliding window from a certain layer on.
var qwen2 = Family{
	name: "qwen2", hf: []string{"qwen2"}, gguf: []string{"qwen2"}, describe: describeQwen,
	defaults: map[string]string{"max_window_layers": "28"},
}

// qwen2moe adds routed experts and a shared expert. Its optional sliding window is in every
// other one of the first layers.
var qwen2moe = Family{
	name: "qwen2moe", hf: []string{"qwen2_moe"}, gguf: []string{"qwen2moe"},
	defaults: map[string]string{"max_window_layers": "28"},
	describe: func(h *Hyper, s *Spec) error {
		s.setWindows(h, func(l int) bool { return h.usesWindow() && l%2 == 0 && l < h.WindowFrom })
		return nil
	},
}

// qwen3 drops the biases and normalizes each query and key head.
var qwen3 = Family{
	name: "qwen3", hf: []string{"qwen3"}, gguf: []string{"qwen3"},
	defaults: map[string]string{"head_dim": "128", "max_window_layers": "28"},
	describe: func(h *Hyper, s *Spec) error {
		s.QKNorm = QKNormHead
		return describeQwen(h, s)
	},
}

// qwen3moe is qwen3 with routed experts and no shared expert. Its optional sliding window
// is in every layer.
var qwen3moe = Family{
	name: "qwen3moe", hf: []string{"qwen3_moe"}, gguf: []string{"qwen3moe"},
	describe: func(h *Hyper, s *Spec) error {
		s.QKNorm = QKNormHead
		if h.GGUF && h.NormTopK == nil {
			s.NormTopK = true // GGUF files omit it; all published models have it
		}
		s.setWindows(h, func(int) bool { return h.usesWindow() })
		return nil
	},
}

func describeQwen(h *Hyper, s *Spec) error {
	s.setWindows(h, func(l int) bool { return h.usesWindow() && l >= h.WindowFrom })
	return nil
}
