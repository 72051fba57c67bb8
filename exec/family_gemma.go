package exec

import "math"

// gemma scales its embedding, stores norm gains less one, and uses GELU.
var gemma = family{
	name: "gemma", hf: []string{"gemma"}, gguf: []string{"gemma"}, describe: describeGemma,
}

// gemma2 adds norms behind attention and MLP, soft caps, and a window in every
// other layer.
var gemma2 = family{
	name: "gemma2", hf: []string{"gemma2"}, gguf: []string{"gemma2"}, names: gemma2Names,
	complete: func(h *Hyper) { scaleByWidth(h, 46) },
	describe: func(h *Hyper, s *Spec) error {
		s.PostNorm = true
		s.windowWhere(h, func(l int) bool { return l%2 == 0 })
		return describeGemma(h, s)
	},
}

// gemma3 trades the caps for query/key norms, and has five layers with a
// window and a rotary base of their own between full ones.
var gemma3 = family{
	name: "gemma3", hf: []string{"gemma3_text", "gemma3"}, gguf: []string{"gemma3"}, names: gemma2Names,
	complete: func(h *Hyper) {
		scaleByWidth(h, 62)
		if h.RopeLocal == nil {
			h.RopeLocal = &RopeHyper{Base: 10000}
		}
	},
	describe: func(h *Hyper, s *Spec) error {
		s.PostNorm = true
		s.QKNorm = QKNormHead
		pattern := h.WindowPattern
		if pattern == 0 {
			pattern = 6
		}
		s.windowWhere(h, func(l int) bool { return (l+1)%pattern != 0 })
		for l := range s.Layers {
			if s.Layers[l].Window > 0 {
				s.Layers[l].Rope = 1 // the table of layers with a window
			}
		}
		return describeGemma(h, s)
	},
}

var gemma2Names = map[string]string{
	"ffn_norm": "pre_feedforward_layernorm",
}

// scaleByWidth sets the attention scale of the one size of a generation, known
// by its number of layers, that divides by the width per head and not by the
// head size. GGUF files do not say it.
func scaleByWidth(h *Hyper, layers int) {
	if h.GGUF && h.AttnScale == 0 && h.Layers == layers && h.Heads > 0 {
		h.AttnScale = 1 / math.Sqrt(float64(h.Dim/h.Heads))
	}
}

func describeGemma(h *Hyper, s *Spec) error {
	s.Act = GELUTanh
	s.EmbedScale = float32(math.Sqrt(float64(h.Dim)))
	if !h.GGUF {
		s.Norm.Offset = 1 // GGUF converters add it to the stored gains
	}
	if h.Activation == "gelu" {
		h.Activation = "gelu_pytorch_tanh" // early configs named it wrongly
	}
	return nil
}
