package arch

// ministral3 is llama whose queries grow with the position. GGUF files of it and of Mistral Small
// share a name.
var ministral3 = Family{
	name: "ministral3", hf: []string{"ministral3"}, gguf: []string{"mistral3"}, interleave: true,
	describe: func(h *Hyper, s *Spec) error {
		s.setWindows(h, func(int) bool { return true })
		return nil
	},
}
