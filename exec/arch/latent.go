package arch

import (
	"fmt"
	"math"

	"github.com/llmrun/llmrun/store"
)

// Latent describes latent attention: a token stores one vector for all heads, of Rank elements from which
// keys and values of each head follow by matrices, and Rope elements that are rotated. Queries are
// multiplied by the keys' matrices instead, so that attention works with the stored vectors.
type Latent struct {
	Rank  int // of keys and values; 0 = ordinary attention
	QRank int // of queries; 0 = one matrix
	Nope  int // elements of a key head that are not rotated
	Rope  int // elements that are
	Value int // elements of a value head
}

var (
	keyRank      = keyName{"attention.kv_lora_rank", "kv_lora_rank"}
	keyKeyLength = keyName{"attention.key_length_mla", "qk_nope_head_dim"}
)

// latent reads the fields of latent attention.
func (c *hfConfig) latent(h *Hyper) {
	h.MiniCPM = multipliersMiniCPM{c.float("scale_emb", 0), c.float("scale_depth", 0), c.float("dim_model_base", 0)}
	if _, ok := c.fields["scale_depth"]; ok && !c.has("scale_depth") { // null: the branches are not scaled
		h.MiniCPM.Depth = math.Sqrt(float64(h.Layers))
	}
	if _, ok := c.fields["dim_model_base"]; ok && !c.has("dim_model_base") {
		h.MiniCPM.Base = float64(h.Dim)
	}
	l := &h.Latent
	if l.Rank = c.num(keyRank.hf, 0); l.Rank == 0 {
		return
	}
	l.QRank, l.Nope, l.Rope = c.num("q_lora_rank", 0), c.num(keyKeyLength.hf, 0), c.num("qk_rope_head_dim", 0)
	l.Value = c.num("v_head_dim", h.Dim/max(1, h.Heads))
	h.HeadDim = l.Nope + l.Rope
	h.Experts = c.num("n_routed_experts", h.Experts)
	kind := c.str("model_type")
	// Models behind DeepSeek V2 have no other routers, and their files may omit what says so.
	h.RouterSigmoid = h.Experts > 0 && kind != "deepseek_v2" && c.str("scoring_func") != "softmax"
	if method := c.str("topk_method"); method == "greedy" || method == "" && !h.RouterSigmoid {
		h.Groups = ExpertGroups{}
	}
	h.Groups.setBest(h)
	c.denseLayers(h, map[string]int{"deepseek_v3": 3, "glm4_moe_lite": 1}[kind])
}

// denseLayers reads which layers have no experts: the first ones, as many as the family's if the file omits it, or those of
// a list.
func (c *hfConfig) denseLayers(h *Hyper, first int) {
	var kinds []string
	if c.get("mlp_layer_types", &kinds); kinds == nil {
		for layer := range min(c.num("first_k_dense_replace", first), len(h.KVHeads)) {
			h.DenseLayers = append(h.DenseLayers, layer)
		}
	}
	if kinds != nil && len(kinds) != len(h.KVHeads) {
		c.fail(fmt.Errorf("%w: %s: field mlp_layer_types: %d entries for %d layers", ErrModel, c.path, len(kinds), len(h.KVHeads)))
		return
	}
	for layer, kind := range kinds {
		switch kind {
		case "dense":
			h.DenseLayers = append(h.DenseLayers, layer)
		case "sparse":
		default:
			c.fail(fmt.Errorf("%w: %s: field mlp_layer_types: layer %d is %q", ErrUnsupported, c.path, layer, kind))
		}
	}
}

// latent reads the keys of latent attention.
func (c *GGUFConfig) latent(h *Hyper, weights store.Source) {
	l := &h.Latent
	if l.Rank = c.Num(keyRank.gguf, 0); l.Rank == 0 {
		return
	}
	l.QRank, l.Rope = c.Num("attention.q_lora_rank", 0), c.Num("rope.dimension_count", 0)
	h.HeadDim = c.Num(keyKeyLength.gguf, c.Num("attention.key_length", 0))
	l.Nope = h.HeadDim - l.Rope
	l.Value = c.Num("attention.value_length_mla", c.Num("attention.value_length", h.Dim/max(1, h.Heads)))
	for i := range h.KVHeads {
		h.KVHeads[i] = h.Heads
		if _, biased := weights.Tensor(fmt.Sprintf("blk.%d.exp_probs_b.bias", i)); biased {
			h.RouterSigmoid = true // some files do not say so
		}
	}
	h.Groups.setBest(h)
}

// validateLatent checks the values of latent attention.
func (h *Hyper) validateLatent() error {
	l := &h.Latent
	if l.Rank == 0 {
		return nil
	}
	for _, n := range []int{l.Rank, l.Nope, l.Rope, l.Value} {
		if n < 1 || n > maxDim {
			return h.FieldError(keyRank, "latent attention has %d elements per token, heads of %d and %d rotated ones, and values of %d: each must be 1…%d",
				l.Rank, l.Nope, l.Rope, l.Value, maxDim)
		}
	}
	if l.QRank < 0 || l.QRank > maxDim || l.Rope%2 != 0 {
		return h.FieldError(keyRank, "queries have the rank %d, and %d rotated elements", l.QRank, l.Rope)
	}
	h.RopeDim = l.Rope
	return nil
}

// SplitsLatent reports whether the model has latent attention with sizes by which tensors can be divided, before the
// other values of the file are known to be good: products of two of them and the heads fit an int64.
func (h *Hyper) SplitsLatent() bool {
	l := &h.Latent
	for _, n := range []int{l.Rank, l.Nope, l.Value} {
		if n < 1 || n > maxDim {
			return false
		}
	}
	return h.Heads >= 1 && h.Heads <= maxHeads
}

// yarnScale is the factor by which yarn changes the attention scale of latent attention.
func yarnScale(factor, mscaleAllDim float64) float32 {
	if factor <= 1 || mscaleAllDim == 0 {
		return 1
	}
	m := 0.1*mscaleAllDim*math.Log(factor) + 1
	return float32(m * m)
}
