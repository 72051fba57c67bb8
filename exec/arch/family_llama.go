package arch

// Llama covers Llama 2, 3, 3.1 and 3.2 and the many models with the same network. GGUF
// files of mixtral and mistral use its name too.
var Llama = Family{
	name: "llama", hf: []string{"llama"}, gguf: []string{"llama"}, interleave: true,
	describe: func(h *Hyper, s *Spec) error {
		s.setWindows(h, func(int) bool { return true })
		s.NormTopK = true // for the expert models with this name
		return nil
	},
}
