package arch

import "math"

// gemma scales its embedding, stores norm gains minus one, and uses GELU.
var gemma = Family{
	name: "gemma", hf: []string{"gemma"}, gguf: []string{"gemma"}, describe: describeGemma,
	defaults: map[string]string{"head_dim": "256"},
}

// gemma2 adds norms after attention and MLP, soft caps, and a sliding window in every other
// layer.
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

// gemma3 replaces the caps by query/key norms. Five layers with a sliding window and a
// rotary base of their own precede each full one.
var gemma3 = Family{
	name: "gemma3", hf: []string{"gemma3_text", "gemma3"}, gguf: []string{"gemma3"}, names: gemma2Names,
	defaults: map[string]string{ // the larger models' files state little more than their size
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

// scaleAttentionByWidth sets the attention scale of the largest model of a generation,
// which its number of layers identifies. It divides by the width per head instead of the
// head size. GGUF files omit it.
func scaleAttentionByWidth(h *Hyper, layers int) {
	if h.GGUF && h.AttnScale == 0 && h.Layers == layers && h.Heads > 0 {
		h.AttnScale = 1 / math.Sqrt(float64(h.Dim/h.Heads))
	}
}

func describeGemma(h *Hyper, s *Spec) error {
	s.Act = GELUTanh
	s.EmbedScale = float32(math.Sqrt(float64(h.Dim)))
	if !h.GGUF {
		s.Norm.Offset = 1 // GGUF converters add 1 to the stored gains
	}
	if h.Activation == "gelu" {
		h.Activation = "gelu_pytorch_tanh" // early files name the wrong activation
	}
	return nil
}
