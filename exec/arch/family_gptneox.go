package arch

// gptneox (Pythia and others) rotates a part of each head and usually computes attention
// and MLP in parallel.
var gptneox = Family{
	name: "gptneox", hf: []string{"gpt_neox"}, gguf: []string{"gptneox"}, QKV: QKVPerHead,
	defaults: map[string]string{"rotary_pct": "0.25", "layer_norm_eps": "1e-5"},
	describe: func(h *Hyper, s *Spec) error {
		s.Norm.Layer = true
		s.Act = GELUErf
		s.Gated = false
		if h.ParallelBlock == nil || *h.ParallelBlock {
			s.Parallel = ParallelTwoNorms
		}
		return nil
	},
	names: map[string]string{
		"layers":      "gpt_neox.layers",
		"token_embd":  "gpt_neox.embed_in",
		"output_norm": "gpt_neox.final_layer_norm",
		"output":      "embed_out",
		"attn_qkv":    "attention.query_key_value",
		"attn_output": "attention.dense",
		"ffn_up":      "mlp.dense_h_to_4h",
		"ffn_down":    "mlp.dense_4h_to_h",
	},
}
