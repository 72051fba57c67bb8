package arch

// lfm2 mixes tokens by short gated convolutions in most layers and by attention in a few.
var lfm2 = Family{
	name: "lfm2", hf: []string{"lfm2"}, gguf: []string{"lfm2"},
	defaults: map[string]string{"rope_theta": "1e6", "norm_eps": "1e-5", "conv_L_cache": "3", "num_key_value_heads": "8"},
	describe: func(h *Hyper, s *Spec) error {
		s.QKNorm = QKNormHead
		for l := range s.Layers {
			if h.LayerTypes != nil && h.LayerTypes[l] == convolution || s.Layers[l].KVHeads == 0 {
				s.Layers[l] = LayerSpec{Mixer: ShortConv, Rope: -1, Experts: s.Layers[l].Experts}
			}
		}
		if s.ConvTaps < 1 {
			return h.FieldError(keyConvTaps, "is missing")
		}
		return nil
	},
	names: lfm2Names,
}

var lfm2Names = map[string]string{
	"output_norm":        "model.embedding_norm",
	"attn_norm":          "operator_norm",
	"attn_output":        "self_attn.out_proj",
	"attn_q_norm":        "self_attn.q_layernorm",
	"attn_k_norm":        "self_attn.k_layernorm",
	"ffn_norm":           "ffn_norm",
	"ffn_gate":           "feed_forward.w1",
	"ffn_up":             "feed_forward.w3",
	"ffn_down":           "feed_forward.w2",
	"shortconv.in_proj":  "conv.in_proj",
	"shortconv.conv":     "conv.conv",
	"shortconv.out_proj": "conv.out_proj",
}

// lfm2moe is lfm2 with routed experts behind its first layers. The experts with the largest sigmoids, each plus a bias, are
// used, weighted by the sigmoids alone.
var lfm2moe = Family{
	name: "lfm2moe", hf: []string{"lfm2_moe"}, gguf: []string{"lfm2moe"},
	defaults: map[string]string{
		"rope_theta": "1e6", "norm_eps": "1e-5", "conv_L_cache": "3", "norm_topk_prob": "true", "num_key_value_heads": "8",
		"num_dense_layers": "2", "num_experts": "32", "num_experts_per_tok": "4", "moe_intermediate_size": "1792",
	},
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
