package arch

// granite is llama with four multipliers: for the embedding, the attention scores, the
// residual branches and the logits.
var granite = Family{
	name: "granite", hf: []string{"granite"}, gguf: []string{"granite"}, interleave: true,
	defaults: map[string]string{"attention_multiplier": "1"},
	describe: func(*Hyper, *Spec) error { return nil },
}
