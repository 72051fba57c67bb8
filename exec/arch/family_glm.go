package arch

// glm4 normalizes both before and behind attention and the MLP, and rotates neighbouring pairs in a
// part of each head.
var glm4 = Family{
	name: "glm4", hf: []string{"glm4"}, gguf: []string{"glm4"}, adjacent: true,
	defaults: map[string]string{"partial_rotary_factor": "0.5", "rms_norm_eps": "1.5625e-7", "head_dim": "128", "num_key_value_heads": "2"},
	describe: func(_ *Hyper, s *Spec) error {
		s.PostNorm = true
		return nil
	},
	names: map[string]string{
		"post_attention_norm": "post_self_attn_layernorm",
		"post_ffw_norm":       "post_mlp_layernorm",
		"ffn_up":              "mlp.gate_up_proj",
	},
}
