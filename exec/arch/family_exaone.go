package arch

// exaone4 normalizes the outputs of attention and MLP, and queries and keys by heads. In models
// with sliding windows, the layers without a window do not rotate.
var exaone4 = Family{
	name: "exaone4", hf: []string{"exaone4"}, gguf: []string{"exaone4"},
	defaults: map[string]string{"rms_norm_eps": "1e-5", "sliding_window": "4096"},
	complete: func(h *Hyper) {
		if h.GGUF && h.Layers == 64 && h.Window == 0 {
			h.Window = 4096 // the number of layers identifies the only model with windows
		}
	},
	describe: func(h *Hyper, s *Spec) error {
		s.PreNorm, s.PostNorm = false, true
		s.QKNorm = QKNormHead
		if h.Window == 0 {
			return nil
		}
		s.setWindowPattern(h, 4)
		s.rotateWindows()
		return nil
	},
}
