package exec

// qwen2 covers Qwen1.5, 2 and 2.5: llama with biases on queries, keys and
// values, and a window from some layer on where it is switched on.
var qwen2 = family{
	name: "qwen2", hf: []string{"qwen2"}, gguf: []string{"qwen2"}, describe: describeQwen,
}

// qwen2moe adds routed experts beside one that every token uses.
var qwen2moe = family{
	name: "qwen2moe", hf: []string{"qwen2_moe"}, gguf: []string{"qwen2moe"}, describe: describeQwen,
}

// qwen3 drops the biases and normalizes each query and key head.
var qwen3 = family{
	name: "qwen3", hf: []string{"qwen3"}, gguf: []string{"qwen3"}, describe: describeQwen3,
}

// qwen3moe is qwen3 with routed experts and no shared one.
var qwen3moe = family{
	name: "qwen3moe", hf: []string{"qwen3_moe"}, gguf: []string{"qwen3moe"},
	describe: func(h *Hyper, s *Spec) error {
		if h.NormTopK == nil {
			s.NormTopK = true // GGUF files do not say; every published one does
		}
		return describeQwen3(h, s)
	},
}

func describeQwen(h *Hyper, s *Spec) error {
	on := h.UseWindow != nil && *h.UseWindow
	s.windowWhere(h, func(l int) bool { return on && l >= h.WindowFrom })
	return nil
}

func describeQwen3(h *Hyper, s *Spec) error {
	s.QKNorm = QKNormHead
	return describeQwen(h, s)
}
