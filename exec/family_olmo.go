package exec

// olmo2 normalizes what attention and MLP give, not what they read, and
// normalizes queries and keys over all heads together.
var olmo2 = family{
	name: "olmo2", hf: []string{"olmo2"}, gguf: []string{"olmo2"},
	describe: func(_ *Hyper, s *Spec) error {
		s.PreNorm = false
		s.PostNorm = true
		s.QKNorm = QKNormWhole
		return nil
	},
}

// olmoe is llama with experts and olmo2's query/key norms.
var olmoe = family{
	name: "olmoe", hf: []string{"olmoe"}, gguf: []string{"olmoe"},
	describe: func(_ *Hyper, s *Spec) error {
		s.QKNorm = QKNormWhole
		return nil
	},
}
