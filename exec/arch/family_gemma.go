package arch

import (
	"cmp"
	"maps"
	"math"
)

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
	complete: func(h *Hyper) {
		scaleAttentionByWidth(h, 46)
		if h.GGUF { // the first files lack the keys of what all of these models have
			h.AttnSoftcap, h.FinalSoftcap = cmp.Or(h.AttnSoftcap, 50), cmp.Or(h.FinalSoftcap, 30)
			h.Window = cmp.Or(h.Window, 4096)
		}
	},
	describe: func(h *Hyper, s *Spec) error {
		s.PostNorm = true
		s.setWindowPattern(h, 2)
		return describeGemma(h, s)
	},
}

// gemma3 replaces the caps by query/key norms. Five layers with a sliding window and a
// rotary base of their own precede each full one.
var gemma3 = Family{
	name: "gemma3", hf: []string{"gemma3_text", "gemma3"}, gguf: []string{"gemma3", gemmaEncoder}, names: gemma2Names,
	defaults: map[string]string{ // the larger models' files state little more than their size
		"num_attention_heads": "8", "num_key_value_heads": "4", "head_dim": "256", "query_pre_attn_scalar": "256",
		"vocab_size": "262208", "max_position_embeddings": "131072", "sliding_window": "4096",
		"rms_norm_eps": "1e-6", "rope_theta": "1e6", "rope_local_base_freq": "1e4",
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

// gemmaEncoder is the architecture of GGUF files whose tokens attend to later ones.
const gemmaEncoder = "gemma-embedding"

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

// gemma3n has several residual streams (AltUp), a second residual path beside attention (Laurel), sparse MLPs
// in its first layers, and what it shares with gemma4: an embedding of each layer's own, and last layers
// that attend to keys and values of earlier ones.
var gemma3n = Family{
	name: "gemma3n", hf: []string{"gemma3n", "gemma3n_text"}, gguf: []string{"gemma3n"}, names: gemma3nNames(),
	defaults: map[string]string{
		"num_attention_heads": "8", "num_key_value_heads": "2", "head_dim": "256", "sliding_window": "512", "rope_theta": "1e6", "rope_local_base_freq": "1e4",
		"final_logit_softcapping": "30", "hidden_size_per_layer_input": "256", "altup_num_inputs": "4", "num_kv_shared_layers": "15", "laurel_rank": "64",
	},
	complete: func(h *Hyper) {
		if h.RopeLocal == nil {
			h.RopeLocal = &RopeHyper{Base: 10000}
		}
		if h.GGUF || h.Gemma.Deviations != nil || h.Layers <= sparseLayers3n {
			return
		}
		for l := range h.Layers { // what files mean that do not say which layers are sparse
			deviations := math.Inf(-1)
			if l < sparseLayers3n {
				deviations = math.Sqrt2 * math.Erfinv(2*0.95-1)
			}
			h.Gemma.Deviations = append(h.Gemma.Deviations, deviations)
		}
	},
	describe: func(h *Hyper, s *Spec) error {
		g := &h.Gemma
		s.Act = GELUTanh
		s.EmbedScale = float32(math.Sqrt(float64(h.Dim)))
		s.AttnScale = 1
		s.PostNorm, s.VNorm = true, true
		s.QKNorm = QKNormHead
		s.PerLayer, s.LaurelRank = g.PerLayer, g.LaurelRank
		s.AltUp = g.AltUp
		if s.PerLayer == 0 || s.AltUp.Streams == 0 || s.LaurelRank == 0 {
			return h.FieldError(keyPerLayer, "%d, with %d streams and a rank of %d of Laurel; each must be at least 1",
				s.PerLayer, s.AltUp.Streams, s.LaurelRank)
		}
		s.setWindowPattern(h, 5)
		s.useLocalRope()
		for l, deviations := range g.Deviations {
			if !math.IsInf(deviations, -1) {
				s.Layers[l].Sparse, s.Layers[l].Deviations = true, float32(deviations)
			}
		}
		return s.shareKV(h)
	},
}

// sparseLayers3n is how many layers of gemma3n are sparse if its files do not say.
const sparseLayers3n = 10

// gemma3nNames returns the names of tensors: those of gemma4, and more.
func gemma3nNames() map[string]string {
	names := maps.Clone(gemma4Names)
	maps.Copy(names, map[string]string{
		"altup_proj":          "model.altup_projections.%d",
		"altup_unembd_proj":   "model.altup_unembed_projections.%d",
		"altup_router":        "altup.modality_router",
		"altup_router_norm":   "altup.router_norm",
		"altup_predict_coef":  "altup.prediction_coefs",
		"altup_correct_coef":  "altup.correction_coefs",
		"altup_correct_scale": "altup.correct_output_scale",
		"laurel_l":            "laurel.linear_left",
		"laurel_r":            "laurel.linear_right",
		"laurel_post_norm":    "laurel.post_laurel_norm",
	})
	return names
}

// gemma4 has heads of another size, and other rotations, in layers with a window. Its last layers may
// attend to keys and values of earlier ones, and layers may have an embedding of their own.
var gemma4 = Family{
	name: "gemma4", hf: []string{"gemma4", "gemma4_text"}, gguf: []string{"gemma4"}, names: gemma4Names,
	defaults: map[string]string{
		"num_attention_heads": "8", "num_key_value_heads": "4", "head_dim": "256", "global_head_dim": "512", "sliding_window": "512",
		"hidden_size_per_layer_input": "256", "rope_parameters": `{"sliding_attention": {"rope_type": "default", "rope_theta": 10000},
			"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000}}`,
	},
	complete: func(h *Hyper) {
		if r := &h.Rope; r.Kind == "proportional" && h.RopeDim > 0 {
			r.Rotated, h.RopeDim = h.RopeDim, 0
		}
		if h.RopeLocal != nil {
			h.RopeLocal.Dim = h.Gemma.WindowHeadDim
		}
	},
	describe: func(h *Hyper, s *Spec) error {
		s.Act = GELUTanh
		s.EmbedScale = float32(math.Sqrt(float64(h.Dim)))
		s.AttnScale = 1
		s.PostNorm, s.VNorm, s.NormTopK = true, true, true
		s.QKNorm = QKNormHead
		s.DenseBeside = h.Experts > 0
		s.PerLayer, s.LayerScale = h.Gemma.PerLayer, true
		if h.RopeLocal != nil {
			s.useLocalRope()
		}
		for l := range s.Layers {
			if s.Layers[l].Window > 0 {
				s.Layers[l].HeadDim = h.Gemma.WindowHeadDim
			}
		}
		for _, l := range h.Gemma.NoValues {
			s.Layers[l].KeyIsValue = true
		}
		return s.shareKV(h)
	},
}

var gemma4Names = map[string]string{
	"ffn_norm":             "pre_feedforward_layernorm",
	"per_layer_token_embd": "model.embed_tokens_per_layer",
	"per_layer_model_proj": "model.per_layer_model_projection",
	"per_layer_proj_norm":  "model.per_layer_projection_norm",
	"inp_gate":             "per_layer_input_gate",
	"proj":                 "per_layer_projection",
	"post_norm":            "post_per_layer_input_norm",
	"layer_output_scale":   "layer_scalar",
	"ffn_gate_inp":         "router.proj",
	"ffn_gate_inp.scale":   "router.scale",
	"ffn_gate_exps":        "experts.gate_proj",
	"ffn_up_exps":          "experts.up_proj",
	"ffn_gate_up_exps":     "experts.gate_up_proj",
	"ffn_down_exps":        "experts.down_proj",
	"ffn_down_exps.scale":  "router.per_expert_scale",
	"post_ffw_norm_1":      "post_feedforward_layernorm_1",
	"post_ffw_norm_2":      "post_feedforward_layernorm_2",
	"pre_ffw_norm_2":       "pre_feedforward_layernorm_2",
}
