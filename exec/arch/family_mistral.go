package arch

// mistral is llama with a sliding window in every layer.
var mistral = Family{
	name: "mistral", hf: []string{"mistral"},
	describe: func(h *Hyper, s *Spec) error {
		s.setWindows(h, func(int) bool { return true })
		return nil
	},
}
