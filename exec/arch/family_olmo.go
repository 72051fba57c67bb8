package arch

// olmo2 normalizes the outputs of attention and MLP instead of their inputs, and normalizes
// queries and keys over all heads together. Olmo 3, which has its name in GGUF files, adds
// sliding windows, and scales the rotation in the other layers only.
var olmo2 = Family{
	name: "olmo2", hf: []string{"olmo2", "olmo3"}, gguf: []string{"olmo2"},
	defaults:     map[string]string{"rms_norm_eps": "1e-5"},
	typeDefaults: map[string]map[string]string{"olmo3": {"sliding_window": "4096", "rope_theta": "500000"}},
	complete: func(h *Hyper) {
		if h.Window > 0 && h.RopeLocal == nil {
			h.RopeLocal = &RopeHyper{Base: h.Rope.Base}
		}
	},
	describe: func(h *Hyper, s *Spec) error {
		if h.RopeLocal != nil {
			s.setWindowPattern(h, 4)
			s.useLocalRope()
		}
		s.PreNorm = false
		s.PostNorm = true
		s.QKNorm = QKNormAllHeads
		return nil
	},
}

// olmoe is llama with experts and the query/key norms of olmo2.
var olmoe = Family{
	name: "olmoe", hf: []string{"olmoe"}, gguf: []string{"olmoe"},
	defaults: map[string]string{"rms_norm_eps": "1e-5"},
	describe: func(_ *Hyper, s *Spec) error {
		s.QKNorm = QKNormAllHeads
		return nil
	},
}
