package arch

// seedOSS is llama with biases for queries, keys and values.
var seedOSS = Family{
	name: "seed_oss", hf: []string{"seed_oss"}, gguf: []string{"seed_oss"},
	ggufNames: map[string]string{"ffn_norm": "post_attention_norm"},
	describe:  func(*Hyper, *Spec) error { return nil },
}
