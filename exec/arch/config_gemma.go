package arch

import (
	"fmt"
	"math"
	"slices"

	"github.com/llmrun/llmrun/store"
)

// gemmaHyper contains the hyper-parameters that only Gemma 3n and 4 have.
type gemmaHyper struct {
	WindowHeadDim int   // head size of layers with a window; 0: that of the others
	SharedKV      int   // last layers that attend to keys and values of an earlier layer
	PerLayer      int   // width of the embedding that each layer has of its own; 0: none
	NoValues      []int // layers whose values are their keys

	AltUp      AltUp
	LaurelRank int
	Deviations []float64 // per layer, see LayerSpec; -∞: the layer is not sparse
}

var (
	keySharedKV = keyName{"attention.shared_kv_layers", "num_kv_shared_layers"}
	keyPerLayer = keyName{"embedding_length_per_layer_input", "hidden_size_per_layer_input"}
	keyStreams  = keyName{"altup.num_inputs", "altup_num_inputs"}
	keyActive   = keyName{"altup.active_idx", "altup_active_idx"}
	keyLaurel   = keyName{"laurel_l.weight", "laurel_rank"}
	keySparsity = keyName{"activation_sparsity_scale", "activation_sparsity_pattern"}
)

// gemma reads the fields of Gemma 3n and 4. In config.json, head_dim is that of layers with a window.
func (c *hfConfig) gemma(h *Hyper) {
	c.windowTypes(h)
	g := &h.Gemma
	g.SharedKV = c.num(keySharedKV.hf, 0)
	g.PerLayer = c.num(keyPerLayer.hf, 0)
	c.streams(g, len(h.KVHeads))
	h.ExpertsUsed = c.num("top_k_experts", h.ExpertsUsed)
	if routed := c.boolean("enable_moe_block"); routed != nil && !*routed {
		h.Experts = 0
	}
	if d := c.num("global_head_dim", 0); d > 0 {
		g.WindowHeadDim, h.HeadDim = h.HeadDim, d
	}
	if same := c.boolean("attention_k_eq_v"); same == nil || !*same || len(h.LayerTypes) != len(h.KVHeads) {
		return
	}
	for l := range h.KVHeads {
		if h.LayerTypes[l] == FullAttention {
			g.NoValues = append(g.NoValues, l)
			h.KVHeads[l] = c.num("num_global_key_value_heads", h.KVHeads[l])
		}
	}
}

// windowTypes lists the types of layers where files omit them: all but every n-th have a window. The last layer of Gemma 4
// has none, whatever its file says.
func (c *hfConfig) windowTypes(h *Hyper) {
	n := map[string]int{gemma3n.name: 5, gemma4.name: 6}[h.Family]
	if n == 0 {
		return
	}
	if h.LayerTypes == nil {
		for l := range h.KVHeads {
			kind := SlidingAttention
			if (l+1)%n == 0 {
				kind = FullAttention
			}
			h.LayerTypes = append(h.LayerTypes, kind)
		}
	}
	if last := len(h.LayerTypes) - 1; last >= 0 && h.Family == gemma4.name {
		h.LayerTypes[last] = FullAttention
	}
}

// gemma reads the keys of Gemma 3n and 4. No key lists the layers whose values are their keys: they
// lack the tensor.
func (c *GGUFConfig) gemma(h *Hyper, weights store.Source) {
	g := &h.Gemma
	g.SharedKV = c.Num(keySharedKV.gguf, 0)
	g.PerLayer = c.Num(keyPerLayer.gguf, 0)
	g.WindowHeadDim = c.Num("attention.key_length_swa", 0)
	c.streams(g, weights)
	if c.Arch != gemma4.name {
		return
	}
	for l := range h.KVHeads {
		_, keys := weights.Tensor(fmt.Sprintf("blk.%d.attn_k.weight", l))
		if _, values := weights.Tensor(fmt.Sprintf("blk.%d.attn_v.weight", l)); keys && !values {
			g.NoValues = append(g.NoValues, l)
		}
	}
}

// most returns a number, or the largest of a list with one for each layer.
func (c *hfConfig) most(key string) int {
	if !c.has(key) || c.fields[key][0] != '[' {
		return c.num(key, 0)
	}
	var list []int
	if c.get(key, &list); len(list) == 0 {
		return 0
	}
	return slices.Max(list)
}

// usuallySparse is how many layers are sparse where a config.json of Gemma 3n with more layers does not say it.
const usuallySparse = 10

// streams reads the fields of Gemma 3n.
func (c *hfConfig) streams(g *gemmaHyper, layers int) {
	g.AltUp.Streams, g.AltUp.Active = c.num(keyStreams.hf, 0), c.num(keyActive.hf, 0)
	scaled := c.boolean("altup_correct_scale")
	g.AltUp.Unscaled = scaled != nil && !*scaled
	g.LaurelRank = c.num(keyLaurel.hf, 0)
	c.get(keySparsity.hf, &g.Deviations)
	if g.AltUp.Streams > 0 && g.Deviations == nil && layers > usuallySparse {
		g.Deviations = make([]float64, layers)
		for l := range usuallySparse {
			g.Deviations[l] = 0.95
		}
	}
	for l, part := range g.Deviations { // of a gate's elements that become 0
		switch {
		case !(part >= 0 && part < 1):
			c.fail(fmt.Errorf("%w: %s: field %s: entry %d is %v, not a part from 0 to below 1", ErrModel, c.path, keySparsity.hf, l, part))
		case part == 0:
			g.Deviations[l] = math.Inf(-1)
		default:
			g.Deviations[l] = math.Sqrt2 * math.Erfinv(2*part-1)
		}
	}
}

// streams reads the keys of Gemma 3n. No key has the rank of Laurel: it is that of the tensors.
func (c *GGUFConfig) streams(g *gemmaHyper, weights store.Source) {
	g.AltUp.Streams, g.AltUp.Active = c.Num(keyStreams.gguf, 0), c.Num(keyActive.gguf, 0)
	if t, ok := weights.Tensor("blk.0." + keyLaurel.gguf); ok && len(t.Shape) == 2 {
		g.LaurelRank = t.Shape[0]
	}
	deviations, _, err := c.Meta.Floats(c.Key(keySparsity.gguf))
	c.fail(err)
	for _, d := range deviations {
		g.Deviations = append(g.Deviations, float64(d))
	}
}

// validateStreams checks the values of Gemma 3n.
func (h *Hyper) validateStreams() error {
	g := &h.Gemma
	if n, most := g.AltUp.Streams, min(maxStreams, h.Dim); n < 0 || n > most { // PredictRow divides a row among them
		return h.FieldError(keyStreams, "%d is outside 0…%d", n, most)
	}
	if g.AltUp.Active < 0 || g.AltUp.Active > max(0, g.AltUp.Streams-1) {
		return h.FieldError(keyActive, "%d of %d streams", g.AltUp.Active, g.AltUp.Streams)
	}
	if g.LaurelRank < 0 || g.LaurelRank > h.Dim {
		return h.FieldError(keyLaurel, "%d is outside 0…%d", g.LaurelRank, h.Dim)
	}
	if n := len(g.Deviations); n != 0 && n != h.Layers {
		return h.FieldError(keySparsity, "%d entries for %d layers", n, h.Layers)
	}
	for l, d := range g.Deviations {
		if math.IsNaN(d) || math.IsInf(d, 1) {
			return h.FieldError(keySparsity, "entry %d is %v", l, d)
		}
	}
	return nil
}

// validateGemma checks the values of Gemma 3n and 4.
func (h *Hyper) validateGemma() error {
	g := &h.Gemma
	if g.SharedKV < 0 || g.SharedKV >= h.Layers {
		return h.FieldError(keySharedKV, "%d of %d layers", g.SharedKV, h.Layers)
	}
	if g.PerLayer < 0 || g.PerLayer > maxDim {
		return h.FieldError(keyPerLayer, "%d is outside 0…%d", g.PerLayer, maxDim)
	}
	if g.WindowHeadDim < 0 || g.WindowHeadDim > maxDim || g.WindowHeadDim%2 != 0 {
		return h.FieldError(keyName{"attention.key_length_swa", "head_dim"}, "%d is not an even number up to %d", g.WindowHeadDim, maxDim)
	}
	return h.validateStreams()
}

// shareKV makes the last layers attend to the keys and values of the last layer of their kind, with a
// window or without, that has its own.
func (s *Spec) shareKV(h *Hyper) error {
	first := len(s.Layers) - h.Gemma.SharedKV
	for l := first; l < len(s.Layers); l++ {
		from := first - 1
		for from >= 0 && (s.Layers[from].Window > 0) != (s.Layers[l].Window > 0) {
			from--
		}
		if from < 0 {
			return h.FieldError(keySharedKV, "layer %d has no earlier layer of its kind with keys and values", l)
		}
		s.Layers[l].KVBack, s.Layers[l].KVHeads = l-from, s.Layers[from].KVHeads
	}
	return nil
}
