package synth

import (
	"math"
)

// Streams holds what Gemma 3n has beside Gemma 4: several residual streams, and a second residual path beside attention.
type Streams struct {
	Count  int // 0 = the family has one
	Laurel int // rank of the second path
	Sparse int // first layers whose MLP keeps few elements
}

// ends adds the tensors outside of the layers.
func (a *Streams) ends(s *Shape) []tensor {
	var out []tensor
	if a.Count > 0 {
		for _, name := range []string{"altup_proj", "altup_unembd_proj"} {
			out = append(out, tensor{name: name + ".weight", shape: []int{a.Count - 1, s.Dim, s.Dim}, role: roleKept, layer: -1})
		}
	}
	return out
}

// layer adds the tensors of a layer.
func (a *Streams) layer(s *Shape, l *layerTensors) {
	l.add("altup_correct_scale.weight", roleNone, fillGain, s.Dim)
	l.add("altup_correct_coef.weight", roleNone, fillBias, a.Count, a.Count)
	l.add("altup_predict_coef.weight", roleNone, fillBias, a.Count*a.Count, a.Count)
	l.add("altup_router.weight", roleKept, fillMatrix, a.Count, s.Dim)
	l.add("altup_router_norm.weight", roleNone, fillGain, s.Dim)
	l.add("laurel_l.weight", roleKept, fillMatrix, a.Laurel, s.Dim)
	l.add("laurel_r.weight", roleKept, fillMatrix, s.Dim, a.Laurel)
	l.add("laurel_post_norm.weight", roleNone, fillGain, s.Dim)
}

// keys adds the sizes.
func (a *Streams) keys(s *Shape, k *keys) {
	k.putInt("altup.active_idx", 0)
	k.putInt("altup.num_inputs", a.Count)
	deviations := make([]float32, s.Layers)
	for l := range deviations {
		deviations[l] = float32(math.Inf(-1))
		if l < a.Sparse {
			deviations[l] = float32(math.Sqrt2 * math.Erfinv(2*sparsePart-1))
		}
	}
	k.put(k.arch+".activation_sparsity_scale", deviations)
}

// sparsePart is the part of an MLP's elements that become 0 in sparse layers.
const sparsePart = 0.95
