package arch

// Llama covers Llama 2, 3, 3.1 and 3.2 and the many models that share their
// shape. In GGUF files mixtral and mistral are "llama" too.
var Llama = Family{
	name: "llama", hf: []string{"llama"}, gguf: []string{"llama"}, interleave: true,
	describe: func(h *Hyper, s *Spec) error {
		s.setWindows(h, func(int) bool { return true })
		s.NormTopK = true // of the expert models that use this name
		return nil
	},
}
