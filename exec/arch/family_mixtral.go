package arch

// mixtral is mistral with routed experts instead of the MLP.
var mixtral = Family{
	name: "mixtral", hf: []string{"mixtral"},
	describe: func(h *Hyper, s *Spec) error {
		s.setWindows(h, func(int) bool { return true })
		s.NormTopK = true
		return nil
	},
	names: map[string]string{
		"ffn_gate_inp":  "block_sparse_moe.gate",
		"ffn_gate_exps": "block_sparse_moe.experts.%d.w1",
		"ffn_up_exps":   "block_sparse_moe.experts.%d.w3",
		"ffn_down_exps": "block_sparse_moe.experts.%d.w2",
	},
}
