package exec

import (
	"fmt"
	"math"
	"slices"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/gguf"
)

// ggufConfig reads the keys of one architecture. The first wrong one is
// remembered, so that a reader can ask for many and check once.
type ggufConfig struct {
	meta *gguf.Metadata
	arch string
	path string
	err  error
}

// hyperFromGGUF turns metadata into the neutral description and finds its
// family. weights is where the layers' tensors are, as a rule f itself.
func hyperFromGGUF(f *gguf.File, weights store.Source, path string) (*Hyper, *family, error) {
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
	c := &ggufConfig{meta: f.Meta(), arch: arch, path: path}
	h := &Hyper{Family: fam.name, GGUF: true, path: path, arch: arch}
	c.refusals()
	c.shape(h)
	c.attention(h)
	c.experts(h)
	c.rope(h)
	denseLayers(weights, h)
	if c.err == nil {
		c.err = ropeTensors(f, h)
	}
	return h, fam, c.err
}

// refusals refuses files that ask for arithmetic which their family does not
// have here. Without this they would load and answer wrongly.
func (c *ggufConfig) refusals() {
	if causal := c.boolean("attention.causal"); causal != nil && !*causal {
		c.refuse("attention.causal", "attention to later tokens")
	}
	if gate := c.num("expert_gating_func", 0); gate > 1 { // 1 is softmax
		c.refuse("expert_gating_func", fmt.Sprintf("function %d", gate))
	}
	if scale := c.float("expert_weights_scale", 0); scale != 0 && scale != 1 {
		c.refuse("expert_weights_scale", fmt.Sprintf("%v", scale))
	}
	if c.float("attention.temperature_scale", 0) != 0 {
		c.refuse("attention.temperature_scale", "scores that depend on the position")
	}
}

func (c *ggufConfig) refuse(name, what string) {
	c.keep(fmt.Errorf("%w: %s: key %s: %s", ErrUnsupported, c.path, c.key(name), what))
}

// denseLayers finds the layers of an expert model that have an ordinary MLP;
// no key lists them.
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

func (c *ggufConfig) shape(h *Hyper) {
	h.Layers = c.need("block_count")
	h.Dim = c.need("embedding_length")
	h.Context = c.need("context_length")
	h.Heads = c.perLayerMax("attention.head_count")
	h.FFN = c.perLayerMax("feed_forward_length")
	h.HeadDim = c.num("attention.key_length", 0)
	if h.HeadDim == 0 && h.Heads > 0 {
		h.HeadDim = h.Dim / h.Heads
	}
	if v := c.num("attention.value_length", h.HeadDim); v != h.HeadDim {
		c.keep(fmt.Errorf("%w: %s: keys of %d and values of %d elements", ErrUnsupported, c.path, h.HeadDim, v))
	}
	if h.Layers >= 0 && h.Layers <= maxLayers {
		h.KVHeads = c.perLayer("attention.head_count_kv", h.Layers, h.Heads)
	}
	h.Vocab = c.num("vocab_size", 0)
	if n, ok := c.meta.Len("tokenizer.ggml.tokens"); ok {
		h.Vocab = n
	}
	h.NormEps = float32(c.float("attention.layer_norm_rms_epsilon", c.float("attention.layer_norm_epsilon", 1e-5)))
	h.ConvTaps = c.num("shortconv.l_cache", 0)
}

func (c *ggufConfig) attention(h *Hyper) {
	h.Window = c.num("attention.sliding_window", 0)
	c.windowPattern(h)
	h.AttnScale = c.float("attention.scale", 0)
	h.AttnSoftcap = float32(c.float("attn_logit_softcapping", 0))
	h.FinalSoftcap = float32(c.float("final_logit_softcapping", 0))
	h.EmbedScale = c.float("embedding_scale", 0)
	h.ResidualScale = c.float("residual_scale", 0)
	if d := c.float("logit_scale", 0); d != 0 {
		h.LogitScale = 1 / d
	}
	h.ClipQKV = float32(c.float("attention.clamp_kqv", 0))
	h.ParallelBlock = c.boolean("use_parallel_residual")
}

// windowPattern reads which layers have a window: every layer but each n-th,
// or a list with true for each layer that has one.
func (c *ggufConfig) windowPattern(h *Hyper) {
	key := c.key("attention.sliding_window_pattern")
	if !c.meta.IsArray(key) {
		h.WindowPattern = c.num("attention.sliding_window_pattern", 0)
		return
	}
	slides, _, err := c.meta.Bools(key)
	c.keep(err)
	for _, s := range slides {
		kind := "full_attention"
		if s {
			kind = "sliding_attention"
		}
		h.LayerTypes = append(h.LayerTypes, kind)
	}
}

func (c *ggufConfig) experts(h *Hyper) {
	h.Experts = c.num("expert_count", 0)
	h.ExpertsUsed = c.num("expert_used_count", 0)
	h.ExpertFFN = c.num("expert_feed_forward_length", h.FFN)
	h.SharedFFN = c.num("expert_shared_feed_forward_length", 0)
	h.NormTopK = c.boolean("expert_weights_norm")
	h.ExpertInterval = 1
}

func (c *ggufConfig) rope(h *Hyper) {
	h.RopeDim = c.num("rope.dimension_count", 0)
	r := &h.Rope
	r.Base = c.float("rope.freq_base", 10000)
	r.Kind = c.str("rope.scaling.type")
	r.Factor = c.float("rope.scaling.factor", 0)
	if linear := c.float("rope.scale_linear", 0); r.Kind == "" && linear != 0 {
		r.Kind, r.Factor = "linear", linear
	}
	if r.Kind == "" && r.Factor != 0 {
		r.Kind = "linear" // what a factor alone means in these files
	}
	r.OriginalContext = c.num("rope.scaling.original_context_length", 0)
	r.AttnFactor = c.float("rope.scaling.attn_factor", 0)
	r.BetaFast = c.float("rope.scaling.yarn_beta_fast", 0)
	r.BetaSlow = c.float("rope.scaling.yarn_beta_slow", 0)
	if r.Kind == "yarn" {
		c.yarn(h)
	}
	if base := c.float("rope.freq_base_swa", 0); base != 0 {
		h.RopeLocal = &RopeHyper{Base: base}
	}
	if rotates := c.boolean("rope.scaling.finetuned"); c.arch == "granite" && rotates != nil && !*rotates {
		// In this family the key says whether there is any rotation.
		for range h.KVHeads {
			h.NoRope = append(h.NoRope, true)
		}
	}
}

// yarn reads how cosine and sine are scaled: a factor given outright, or a
// formula whose result attn_factor scales once more.
func (c *ggufConfig) yarn(h *Hyper) {
	r := &h.Rope
	if m := c.float("rope.scaling.yarn_log_multiplier", 0); m != 0 {
		r.MScale, r.MScaleAllDim = 1, m
	}
	scale := r.AttnFactor
	r.AttnFactor = c.float("rope.scaling.yarn_attn_factor", 0)
	if scale != 0 {
		r.AttnFactor = scale * float64(yarnGain(r, h.Context))
	}
}

// ropePrefix begins the names of the tensors that are part of a GGUF file's
// description and not of its weights.
const ropePrefix = "rope_"

// ropeTensors reads the frequency factors that converters store as tensors.
func ropeTensors(src store.Source, h *Hyper) error {
	for name, dst := range map[string]*[]float64{
		ropePrefix + "freqs.weight":         &h.Rope.Divisors,
		ropePrefix + "factors_short.weight": &h.Rope.Short,
		ropePrefix + "factors_long.weight":  &h.Rope.Long,
	} {
		t, ok := src.Tensor(name)
		if !ok {
			continue
		}
		if t.Type != quant.F32 || t.Size > maxTableBytes {
			return fmt.Errorf("%w: %s: tensor %s: %s of %d bytes instead of a few F32", ErrModel, h.path, name, t.Type, t.Size)
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

func (c *ggufConfig) key(name string) string { return c.arch + "." + name }

func (c *ggufConfig) keep(err error) {
	if c.err == nil {
		c.err = err
	}
}

// need returns a number that must be there.
func (c *ggufConfig) need(name string) int {
	if !c.meta.Has(c.key(name)) {
		c.keep(fmt.Errorf("%w: %s: key %s is missing", ErrModel, c.path, c.key(name)))
	}
	return c.num(name, 0)
}

func (c *ggufConfig) num(name string, otherwise int) int {
	v, ok, err := c.meta.Int(c.key(name))
	c.keep(err)
	if !ok || err != nil {
		return otherwise
	}
	if v > math.MaxInt32 || v < math.MinInt32 {
		c.keep(fmt.Errorf("%w: %s: key %s: %d is out of range", ErrModel, c.path, c.key(name), v))
		return otherwise
	}
	return int(v)
}

// perLayer returns a value for each layer, from a list or one for all.
func (c *ggufConfig) perLayer(name string, layers, otherwise int) []int {
	out := make([]int, layers)
	if !c.meta.IsArray(c.key(name)) {
		v := c.num(name, otherwise)
		for l := range out {
			out[l] = v
		}
		return out
	}
	list, _, err := c.meta.Ints(c.key(name))
	c.keep(err)
	if len(list) != layers {
		c.keep(fmt.Errorf("%w: %s: key %s has %d entries for %d layers", ErrModel, c.path, c.key(name), len(list), layers))
		return out
	}
	for l, v := range list {
		if v < 0 || v > maxDim {
			c.keep(fmt.Errorf("%w: %s: key %s: entry %d is %d", ErrModel, c.path, c.key(name), l, v))
			return out
		}
		out[l] = int(v)
	}
	return out
}

// perLayerMax returns the greatest of a list, or the one value for all.
func (c *ggufConfig) perLayerMax(name string) int {
	n := 1
	if length, ok := c.meta.Len(c.key(name)); ok && c.meta.IsArray(c.key(name)) {
		n = min(length, maxLayers)
	}
	if n == 0 {
		return 0
	}
	return slices.Max(c.perLayer(name, n, 0))
}

func (c *ggufConfig) float(name string, otherwise float64) float64 {
	v, ok, err := c.meta.Float(c.key(name))
	c.keep(err)
	if !ok || err != nil {
		return otherwise
	}
	return v
}

func (c *ggufConfig) str(name string) string {
	v, _, err := c.meta.String(c.key(name))
	c.keep(err)
	return v
}

func (c *ggufConfig) boolean(name string) *bool {
	v, ok, err := c.meta.Bool(c.key(name))
	c.keep(err)
	if !ok || err != nil {
		return nil
	}
	return &v
}
