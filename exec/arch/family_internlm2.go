package arch

// internlm2 is llama with other tensor names, and with queries, keys and values fused per
// KV head.
var internlm2 = Family{
	name: "internlm2", hf: []string{"internlm2"}, gguf: []string{"internlm2"},
	interleave: true, QKV: QKVPerKV,
	describe: func(*Hyper, *Spec) error { return nil },
	names: map[string]string{
		"token_embd":  "model.tok_embeddings",
		"output":      "output",
		"attn_norm":   "attention_norm",
		"attn_qkv":    "attention.wqkv",
		"attn_output": "attention.wo",
		"ffn_norm":    "ffn_norm",
		"ffn_gate":    "feed_forward.w1",
		"ffn_up":      "feed_forward.w3",
		"ffn_down":    "feed_forward.w2",
	},
}
