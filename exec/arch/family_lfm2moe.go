package arch

// lfm2moe is lfm2 with routed experts behind its first layers. The experts with the largest sigmoids, each plus a bias, are
// used, weighted by the sigmoids alone.
var lfm2moe = Family{
	name: "lfm2moe", hf: []string{"lfm2_moe"}, gguf: []string{"lfm2moe"},
	defaults: map[string]string{"rope_theta": "1e6", "norm_eps": "1e-5", "conv_L_cache": "3", "norm_topk_prob": "true"},
	describe: func(h *Hyper, s *Spec) error {
		s.RouterSigmoid = true
		if h.NormTopK == nil {
			s.NormTopK = true
		}
		return lfm2.describe(h, s)
	},
	names: withNames(lfm2Names, map[string]string{
		"ffn_gate_inp":     "feed_forward.gate",
		"ffn_gate_exps":    "feed_forward.experts.%d.w1",
		"ffn_up_exps":      "feed_forward.experts.%d.w3",
		"ffn_down_exps":    "feed_forward.experts.%d.w2",
		"exp_probs_b.bias": "feed_forward.expert_bias",
	}),
}
