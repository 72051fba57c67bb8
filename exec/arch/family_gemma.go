package arch

import "math"

// gemma scales its embedding, stores norm gains less one, and uses GELU.
var gemma = Family{
	name: "gemma", hf: []string{"gemma"}, gguf: []string{"gemma"}, describe: describeGemma,
	defaults: map[string]string{"head_dim": "256"},
}

// gemma2 adds norms behind attention and MLP, soft caps, and a window in every
// other layer.
var gemma2 = Family{
	name: "gemma2", hf: []string{"gemma2"}, gguf: []string{"gemma2"}, names: gemma2Names,
	defaults: map[string]string{
		"head_dim": "256", "query_pre_attn_scalar": "256", "sliding_window": "4096",
		"attn_logit_softcapping": "50", "final_logit_softcapping": "30",
	},
	complete: func(h *Hyper) { scaleAttentionByWidth(h, 46) },
	describe: func(h *Hyper, s *Spec) error {
		s.PostNorm = true
		s.setWindowPattern(h, 2)
		return describeGemma(h, s)
	},
}

// gemma3 trades the caps for query/key norms, and has five layers with a
// window and a rotary base of their own between full ones.
var gemma3 = Family{
	name: "gemma3", hf: []string{"gemma3_text", "gemma3"}, gguf: []string{"gemma3"}, names: gemma2Names,
	defaults: map[string]string{ // the larger ones say little more than their size
		"num_attention_heads": "8", "num_key_value_heads": "4", "head_dim": "256", "query_pre_attn_scalar": "256",
		"vocab_size": "262208", "max_position_embeddings": "131072", "sliding_window": "4096",
		"rms_norm_eps": "1e-6", "rope_theta": "1e6",
	},
	complete: func(h *Hyper) {
		scaleAttentionByWidth(h, 62)
		if h.RopeLocal == nil {
			h.RopeLocal = &RopeHyper{Base: 10000}
		}
	},
	describe: func(h *Hyper, s *Spec) error {
		s.PostNorm = true
		s.QKNorm = QKNormHead
		s.setWindowPattern(h, 6)
		s.useLocalRope()
		return describeGemma(h, s)
	},
}

var gemma2Names = map[string]string{
	"ffn_norm": "pre_feedforward_layernorm",
}

// scaleAttentionByWidth sets the attention scale of the one size of a generation, known
// by its number of layers, that divides by the width per head and not by the
// head size. GGUF files do not say it.
func scaleAttentionByWidth(h *Hyper, layers int) {
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
