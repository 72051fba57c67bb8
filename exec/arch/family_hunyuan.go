package arch

// hunyuan is llama that normalizes queries and keys after their rotation.
var hunyuan = Family{
	name: "hunyuan", hf: []string{"hunyuan_v1_dense"}, gguf: []string{"hunyuan-dense"},
	describe: func(_ *Hyper, s *Spec) error {
		s.QKNorm = QKNormRotated
		return nil
	},
	names: map[string]string{
		"attn_q_norm": "self_attn.query_layernorm",
		"attn_k_norm": "self_attn.key_layernorm",
	},
}
