package arch

// smollm3 is llama without rotation in every fourth layer. Its optional sliding window is
// in the layers without rotation.
var smollm3 = Family{
	name: "smollm3", hf: []string{"smollm3"}, gguf: []string{"smollm3"}, interleave: true,
	defaults: map[string]string{"rope_theta": "2e6", "no_rope_layer_interval": "4"},
	describe: func(h *Hyper, s *Spec) error {
		if h.NoRope == nil { // GGUF files omit it
			for l := 3; l < len(s.Layers); l += 4 {
				s.Layers[l].Rope = -1
			}
		}
		s.setWindows(h, func(l int) bool { return h.usesWindow() && s.Layers[l].Rope < 0 })
		return nil
	},
}
