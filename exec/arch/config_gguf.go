package arch

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/gguf"
)

// GGUFConfig reads the metadata keys of one architecture. Err records the first error, so
// that a caller can read many keys and check once.
type GGUFConfig struct {
	Meta *gguf.Metadata
	Arch string
	Path string
	Err  error
}

// HyperFromGGUF reads the hyper-parameters from metadata and finds the model's family.
// weights contains the tensors of the layers, and is usually f itself.
func HyperFromGGUF(f *gguf.File, weights store.Source, path string) (*Hyper, *Family, error) {
	arch, ok, err := f.Meta().String("general.architecture")
	if err != nil {
		return nil, nil, err
	}
	if !ok {
		return nil, nil, fmt.Errorf("%w: %s: general.architecture is missing", ErrModel, path)
	}
	fam, err := familyByGGUF(arch)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: general.architecture: %w", path, err)
	}
	c := &GGUFConfig{Meta: f.Meta(), Arch: arch, Path: path}
	h := &Hyper{Family: fam.name, GGUF: true, Path: path, arch: arch, Bidirectional: fam.encoder || arch == gemmaEncoder}
	c.checkUnsupported()
	c.shape(h)
	c.attention(h)
	c.experts(h)
	c.rope(h)
	c.gemma(h, weights)
	c.latent(h, weights)
	denseLayers(weights, h)
	stateNorms(weights, h)
	h.Multipliers = noMultipliers
	c.encoder(h, weights)
	if c.Err == nil {
		c.Err = ropeTensors(f, h)
	}
	return h, fam, c.Err
}

// gatingSigmoid is the value of expert_gating_func for sigmoids; 1 means softmax.
const gatingSigmoid = 2

// checkUnsupported rejects files that request arithmetic which their family does not
// implement. Such a model would load and give wrong answers.
func (c *GGUFConfig) checkUnsupported() {
	if gate := c.Num("expert_gating_func", 0); gate > gatingSigmoid {
		c.unsupported("expert_gating_func", fmt.Sprintf("function %d", gate))
	}
}

// unsupported records that a key has an unsupported value.
func (c *GGUFConfig) unsupported(name, what string) {
	c.fail(fmt.Errorf("%w: %s: key %s: %s", ErrUnsupported, c.Path, c.Key(name), what))
}

// denseLayers finds the layers of an expert model that have an ordinary MLP. No key lists
// them.
func denseLayers(src store.Source, h *Hyper) {
	if h.Experts == 0 {
		return
	}
	for l := range h.KVHeads {
		_, routes := src.Tensor(fmt.Sprintf("blk.%d.ffn_gate_inp.weight", l))
		_, dense := src.Tensor(fmt.Sprintf("blk.%d.ffn_up.weight", l))
		if dense && !routes {
			h.DenseLayers = append(h.DenseLayers, l)
		}
	}
}

func (c *GGUFConfig) shape(h *Hyper) {
	h.NextLayers = c.Num("nextn_predict_layers", 0)
	h.Layers = c.required("block_count") - h.NextLayers
	h.Dim = c.required("embedding_length")
	h.Context = c.required("context_length")
	h.Heads = c.perLayerMax("attention.head_count")
	h.FFN = c.perLayerMax("feed_forward_length")
	h.HeadDim = c.Num("attention.key_length", 0)
	if h.HeadDim == 0 && h.Heads > 0 {
		h.HeadDim = h.Dim / h.Heads
	}
	if v := c.Num("attention.value_length", h.HeadDim); v != h.HeadDim && c.Num(keyRank.gguf, 0) == 0 {
		c.fail(fmt.Errorf("%w: %s: keys have %d elements and values %d; both must be equal", ErrUnsupported, c.Path, h.HeadDim, v))
	}
	if h.Layers >= 0 && h.Layers <= maxLayers {
		h.KVHeads = c.perLayer("attention.head_count_kv", h.Layers, h.Heads)
	}
	h.Vocab = c.Num("vocab_size", 0)
	if n, ok := c.Meta.Len("tokenizer.ggml.tokens"); ok {
		h.Vocab = n
	}
	h.NormEps = float32(c.Float("attention.layer_norm_rms_epsilon", c.Float("attention.layer_norm_epsilon", 1e-5)))
	h.ConvTaps = c.Num("shortconv.l_cache", 0)
	c.recurrence(h)
}

func (c *GGUFConfig) attention(h *Hyper) {
	h.Window = c.Num("attention.sliding_window", 0)
	c.windowPattern(h)
	h.AttnScale = c.Float("attention.scale", 0)
	h.QueryGrowth = c.Float("attention.temperature_scale", 0)
	h.AttnSoftcap = float32(c.Float("attn_logit_softcapping", 0))
	h.FinalSoftcap = float32(c.Float("final_logit_softcapping", 0))
	h.EmbedScale = c.Float("embedding_scale", 0)
	h.ResidualScale = c.Float("residual_scale", 0)
	if d := c.Float("logit_scale", 0); d != 0 {
		h.LogitScale = 1 / d
	}
	h.ClipQKV = float32(c.Float("attention.clamp_kqv", 0))
	h.ParallelBlock = c.boolean("use_parallel_residual")
}

// windowPattern reads which layers have a sliding window: all but every n-th layer, or a
// list with true for each such layer.
func (c *GGUFConfig) windowPattern(h *Hyper) {
	key := c.Key("attention.sliding_window_pattern")
	if !c.Meta.IsArray(key) {
		h.WindowPattern = c.Num("attention.sliding_window_pattern", 0)
		return
	}
	slides, _, err := c.Meta.Bools(key)
	c.fail(err)
	for _, s := range slides {
		kind := "full_attention"
		if s {
			kind = "sliding_attention"
		}
		h.LayerTypes = append(h.LayerTypes, kind)
	}
}

func (c *GGUFConfig) experts(h *Hyper) {
	h.Experts = c.Num("expert_count", 0)
	h.ExpertsUsed = c.Num("expert_used_count", 0)
	h.ExpertFFN = c.Num("expert_feed_forward_length", h.FFN)
	h.SharedFFN = c.Num("expert_shared_feed_forward_length", 0)
	h.NormTopK = c.boolean("expert_weights_norm")
	h.RouterSigmoid = c.Num("expert_gating_func", 0) == gatingSigmoid
	h.RoutedScale = c.Float("expert_weights_scale", 0)
	h.ExpertInterval = 1
	h.Groups = ExpertGroups{c.Num("expert_group_count", 1), c.Num("expert_group_used_count", 0), 1}
}

func (c *GGUFConfig) rope(h *Hyper) {
	h.RopeDim = c.Num("rope.dimension_count", 0)
	r := &h.Rope
	r.Base = c.Float("rope.freq_base", 10000)
	r.Kind = c.str("rope.scaling.type")
	r.Factor = c.Float("rope.scaling.factor", 0)
	if linear := c.Float("rope.scale_linear", 0); r.Kind == "" && linear != 0 {
		r.Kind, r.Factor = "linear", linear
	}
	if r.Kind == "" && r.Factor != 0 {
		r.Kind = "linear" // the meaning of a factor without a type
	}
	r.OriginalContext = c.Num("rope.scaling.original_context_length", 0)
	r.AttnFactor = c.Float("rope.scaling.attn_factor", 0)
	r.BetaFast = c.Float("rope.scaling.yarn_beta_fast", 0)
	r.BetaSlow = c.Float("rope.scaling.yarn_beta_slow", 0)
	if r.Kind == "yarn" {
		c.yarn(h)
	}
	if base := c.Float("rope.freq_base_swa", 0); base != 0 {
		h.RopeLocal = &RopeHyper{Base: base}
	}
	if rotates := c.boolean("rope.scaling.finetuned"); strings.HasPrefix(c.Arch, "granite") && rotates != nil && !*rotates {
		// Granite uses this key to enable or disable rotation.
		for range h.KVHeads {
			h.NoRope = append(h.NoRope, true)
		}
	}
}

// yarn reads the scale of cosine and sine: an explicit factor, or a formula whose result
// attn_factor multiplies.
func (c *GGUFConfig) yarn(h *Hyper) {
	r := &h.Rope
	if m := c.Float("rope.scaling.yarn_log_multiplier", 0); m != 0 {
		r.MScale, r.MScaleAllDim = 1, m
	}
	scale := r.AttnFactor
	r.AttnFactor = c.Float("rope.scaling.yarn_attn_factor", 0)
	if scale != 0 {
		r.AttnFactor = scale * float64(yarnGain(r, h.Context))
	}
}

// RopePrefix begins the names of the tensors that belong to a GGUF file's metadata.
const RopePrefix = "rope_"

// ropeTensors reads the frequency factors that converters store as tensors.
func ropeTensors(src store.Source, h *Hyper) error {
	for name, dst := range map[string]*[]float64{
		RopePrefix + "freqs.weight":         &h.Rope.Divisors,
		RopePrefix + "factors_short.weight": &h.Rope.Short,
		RopePrefix + "factors_long.weight":  &h.Rope.Long,
	} {
		t, ok := src.Tensor(name)
		if !ok {
			continue
		}
		if t.Type != quant.F32 || t.Size > MaxTableBytes {
			return fmt.Errorf("%w: %s: tensor %s: %s of %d bytes is not a small F32 table", ErrModel, h.Path, name, t.Type, t.Size)
		}
		raw := make([]byte, t.Size)
		if _, err := src.ReadAt(t, raw, 0); err != nil {
			return err
		}
		values := make([]float32, t.Size/4)
		quant.DequantRow(t.Type, values, raw)
		for _, v := range values {
			*dst = append(*dst, float64(v))
		}
	}
	if h.Rope.Short != nil && h.Rope.Long != nil {
		h.Rope.Kind = "longrope"
	}
	return nil
}

// Key returns the full metadata key of a field of this architecture.
func (c *GGUFConfig) Key(name string) string { return c.Arch + "." + name }

// fail records the first error.
func (c *GGUFConfig) fail(err error) {
	if c.Err == nil {
		c.Err = err
	}
}

// required returns a required number.
func (c *GGUFConfig) required(name string) int {
	if !c.Meta.Has(c.Key(name)) {
		c.fail(fmt.Errorf("%w: %s: key %s is missing", ErrModel, c.Path, c.Key(name)))
	}
	return c.Num(name, 0)
}

// Num returns an integer field, or fallback if the file lacks it. It records a malformed
// value in Err.
func (c *GGUFConfig) Num(name string, fallback int) int {
	v, ok, err := c.Meta.Int(c.Key(name))
	c.fail(err)
	if !ok || err != nil {
		return fallback
	}
	if v > math.MaxInt32 || v < math.MinInt32 {
		c.fail(fmt.Errorf("%w: %s: key %s: %d is out of range", ErrModel, c.Path, c.Key(name), v))
		return fallback
	}
	return int(v)
}

// perLayer returns a value for each layer, from a list or from one value for all.
func (c *GGUFConfig) perLayer(name string, layers, fallback int) []int {
	out := make([]int, layers)
	if !c.Meta.IsArray(c.Key(name)) {
		v := c.Num(name, fallback)
		for l := range out {
			out[l] = v
		}
		return out
	}
	list, _, err := c.Meta.Ints(c.Key(name))
	c.fail(err)
	if len(list) != layers {
		c.fail(fmt.Errorf("%w: %s: key %s has %d entries for %d layers", ErrModel, c.Path, c.Key(name), len(list), layers))
		return out
	}
	for l, v := range list {
		if v < 0 || v > maxDim {
			c.fail(fmt.Errorf("%w: %s: key %s: entry %d is %d, outside 0…%d", ErrModel, c.Path, c.Key(name), l, v, maxDim))
			return out
		}
		out[l] = int(v)
	}
	return out
}

// perLayerMax returns the maximum of a list, or the one value for all layers.
func (c *GGUFConfig) perLayerMax(name string) int {
	n := 1
	if length, ok := c.Meta.Len(c.Key(name)); ok && c.Meta.IsArray(c.Key(name)) {
		n = min(length, maxLayers)
	}
	if n == 0 {
		return 0
	}
	return slices.Max(c.perLayer(name, n, 0))
}

// Float returns a number, or fallback if the file lacks it. It records a malformed value in
// Err.
func (c *GGUFConfig) Float(name string, fallback float64) float64 {
	v, ok, err := c.Meta.Float(c.Key(name))
	c.fail(err)
	if !ok || err != nil {
		return fallback
	}
	return v
}

func (c *GGUFConfig) str(name string) string {
	v, _, err := c.Meta.String(c.Key(name))
	c.fail(err)
	return v
}

func (c *GGUFConfig) boolean(name string) *bool {
	v, ok, err := c.Meta.Bool(c.Key(name))
	c.fail(err)
	if !ok || err != nil {
		return nil
	}
	return &v
}

// MaxTableBytes limits a rotary table: a float32 for each pair of elements.
const MaxTableBytes = 4 * maxDim
