package arch

// cohere2 computes attention and MLP from one LayerNorm. All but every fourth layer have a sliding
// window, and only those rotate.
var cohere2 = Family{
	name: "cohere2", hf: []string{"cohere2"}, gguf: []string{"cohere2"}, adjacent: true,
	defaults: map[string]string{"layer_norm_eps": "1e-5", "logit_scale": "0.0625", "sliding_window": "4096", "tie_word_embeddings": "true"},
	complete: func(h *Hyper) {
		if h.GGUF && h.LogitScale != 0 {
			h.LogitScale = 1 / h.LogitScale // its files have the factor itself
		}
	},
	describe: func(h *Hyper, s *Spec) error {
		s.Norm.Layer = true
		s.Parallel = ParallelSharedNorm
		s.setWindowPattern(h, 4)
		s.rotateWindows()
		return nil
	},
}
