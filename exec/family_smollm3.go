package exec

// smollm3 is llama without rotation in every fourth layer.
var smollm3 = family{
	name: "smollm3", hf: []string{"smollm3"}, gguf: []string{"smollm3"}, interleave: true,
	describe: func(h *Hyper, s *Spec) error {
		on := h.UseWindow != nil && *h.UseWindow
		s.windowWhere(h, func(l int) bool { return on && s.Layers[l].Rope >= 0 })
		if h.NoRope == nil {
			for l := 3; l < len(s.Layers); l += 4 {
				s.Layers[l].Rope = -1
			}
		}
		return nil
	},
}
