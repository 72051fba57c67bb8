package arch

import (
	"maps"
	"math"
)

// gemma3n has several residual streams (AltUp), a second residual path beside attention (Laurel), sparse MLPs
// in its first layers, and what it shares with gemma4: an embedding of each layer's own, and last layers
// that attend to keys and values of earlier ones.
var gemma3n = Family{
	name: "gemma3n", hf: []string{"gemma3n", "gemma3n_text"}, gguf: []string{"gemma3n"}, names: gemma3nNames(),
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
		if h.RopeLocal != nil {
			s.useLocalRope()
		}
		for l, deviations := range g.Deviations {
			if !math.IsInf(deviations, -1) {
				s.Layers[l].Sparse, s.Layers[l].Deviations = true, float32(deviations)
			}
		}
		return s.shareKV(h)
	},
}

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
