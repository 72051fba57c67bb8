package arch

import "math"

// gemma4 has heads of another size, and other rotations, in layers with a window. Its last layers may
// attend to keys and values of earlier ones, and layers may have an embedding of their own.
var gemma4 = Family{
	name: "gemma4", hf: []string{"gemma4", "gemma4_text"}, gguf: []string{"gemma4"}, names: gemma4Names,
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
