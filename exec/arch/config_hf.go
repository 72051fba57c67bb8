package arch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// hfConfig reads config.json in the format of transformers 4 (rope_theta, rope_scaling) and
// 5 (rope_parameters). Err records the first error, so that a caller can read many fields
// and check once.
type hfConfig struct {
	path   string
	fields map[string]json.RawMessage
	Err    error
}

// HyperFromHF reads the hyper-parameters from a config.json and finds the model's family.
func HyperFromHF(path string, data []byte) (*Hyper, *Family, error) {
	c, err := NewHFConfig(path, data)
	if err != nil {
		return nil, nil, err
	}
	f, err := familyByHF(c.str("model_type"))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: model_type: %w", path, err)
	}
	c.checkOnly(f.only)
	for _, defaults := range []map[string]string{f.defaults, f.typeDefaults[c.str("model_type")]} {
		for key, value := range defaults {
			if _, ok := c.fields[key]; !ok && !c.saysOtherwise(key) {
				c.fields[key] = json.RawMessage(value)
			}
		}
	}
	for from, to := range f.aliases {
		if c.has(from) && !c.has(to) {
			c.fields[to] = c.fields[from]
		}
	}
	h := &Hyper{Family: f.name, Path: path, Bidirectional: f.encoder || c.bidirectional()}
	h.IntPacking, h.MXFP4 = c.IntPacking(), c.mxfp4()
	c.shape(h)
	c.attention(h)
	c.experts(h)
	c.gemma(h)
	c.latent(h)
	c.ropes(h)
	c.multipliers(h)
	c.encoder(h)
	return h, f, c.Err
}

// saysOtherwise reports whether a file has the other name of a field.
func (c *hfConfig) saysOtherwise(key string) bool {
	return key == "rope_parameters" && c.has("rope_scaling") || key == "head_dim" && c.has("attention_head_dim")
}

// NewHFConfig parses a config.json. Errors name path.
func NewHFConfig(path string, data []byte) (*hfConfig, error) {
	c := &hfConfig{path: path}
	if err := json.Unmarshal(WithoutInfinity(data), &c.fields); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrModel, path, err)
	}
	// Multimodal models have the language model's fields in an object of their own.
	if text, ok := c.fields["text_config"]; ok {
		var inner map[string]json.RawMessage
		if err := json.Unmarshal(text, &inner); err != nil {
			return nil, fmt.Errorf("%w: %s: text_config: %w", ErrModel, path, err)
		}
		for k, v := range inner {
			c.fields[k] = v
		}
	}
	return c, nil
}

func (c *hfConfig) shape(h *Hyper) {
	c.countLayers()
	h.Layers, h.NextLayers = c.required("num_hidden_layers"), c.num("num_nextn_predict_layers", 0)
	h.Dim = c.required("hidden_size")
	h.Heads = c.required("num_attention_heads")
	h.FFN = c.most("intermediate_size")
	h.Vocab = c.required("vocab_size")
	h.Context = c.required("max_position_embeddings")
	h.HeadDim = c.num("head_dim", c.num("attention_head_dim", 0))
	if h.HeadDim == 0 && h.Heads > 0 {
		h.HeadDim = h.Dim / h.Heads
	}
	kv := c.num("num_key_value_heads", h.Heads)
	if h.Layers >= 0 && h.Layers <= maxLayers {
		h.KVHeads = make([]int, h.Layers)
	}
	c.layerTypes(h)
	for l := range h.KVHeads {
		if len(h.LayerTypes) != h.Layers || attends(h.LayerTypes[l]) {
			h.KVHeads[l] = kv
		}
	}
	h.NormEps = 1e-6 // the default of the checkpoints
	for _, key := range []string{"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps"} {
		if c.has(key) {
			h.NormEps = float32(c.float(key, 0))
		}
	}
	h.Activation = c.str("hidden_act")
	if c.has("hidden_activation") {
		h.Activation = c.str("hidden_activation")
	}
	h.Tied = c.boolean("tie_word_embeddings")
	if tied := c.boolean("tie_embedding"); tied != nil {
		h.Tied = tied // the name in the first lfm2 checkpoints
	}
	h.ConvTaps = c.num("conv_L_cache", 0)
	c.recurrence(h)
}

// layerTypes reads the type of each layer. The first lfm2 checkpoints list only the layers
// with attention.
func (c *hfConfig) layerTypes(h *Hyper) {
	c.get("layer_types", &h.LayerTypes)
	var attends []int
	c.get("full_attn_idxs", &attends)
	c.layerPattern(h)
	if h.LayerTypes != nil || attends == nil {
		return
	}
	for range h.KVHeads {
		h.LayerTypes = append(h.LayerTypes, convolution)
	}
	for _, l := range attends {
		if l < 0 || l >= len(h.LayerTypes) {
			c.fail(fmt.Errorf("%w: %s: field full_attn_idxs: layer %d does not exist", ErrModel, c.path, l))
			return
		}
		h.LayerTypes[l] = FullAttention
	}
}

func (c *hfConfig) attention(h *Hyper) {
	h.Window = c.num("sliding_window", 0)
	h.UseWindow = c.boolean("use_sliding_window")
	h.WindowFrom = c.num("max_window_layers", 0)
	c.windowPattern(h)
	h.AttnSoftcap = float32(c.float("attn_logit_softcapping", 0))
	h.FinalSoftcap = float32(c.float("final_logit_softcapping", 0))
	h.AttnScale = c.float("attention_multiplier", 0)
	if q := c.float("query_pre_attn_scalar", 0); q > 0 {
		h.AttnScale = 1 / math.Sqrt(q)
	}
	h.EmbedScale = c.float("embedding_multiplier", 0)
	h.ResidualScale = c.float("residual_multiplier", 0)
	if d := c.float("logits_scaling", 0); d != 0 {
		h.LogitScale = 1 / d
	}
	if m := c.float("logit_scale", 0); m != 0 {
		h.LogitScale = m
	}
	h.ClipQKV = float32(c.float("clip_qkv", 0))
	if v := c.boolean("qk_layernorm"); v != nil {
		h.QKNorm = *v
	}
	h.ParallelBlock = c.boolean("use_parallel_residual")
	if adjacent := c.boolean("rope_interleave"); adjacent != nil {
		h.RotatesHalves = !*adjacent
	}
	if kind := c.str("position_embedding_type"); kind == "nope" || kind == "" && h.Family == graniteHybrid.name {
		for range h.KVHeads {
			h.NoRope = append(h.NoRope, true)
		}
	}
	var rotates []int
	c.get("no_rope_layers", &rotates)
	for _, r := range rotates { // 1 means that the layer rotates
		h.NoRope = append(h.NoRope, r == 0)
	}
	if interval := c.num("no_rope_layer_interval", 0); rotates == nil && interval > 0 {
		for l := range h.KVHeads {
			h.NoRope = append(h.NoRope, (l+1)%interval == 0)
		}
	}
}

// windowPattern reads which layers have a window: all but every n-th, or a text with L for each
// layer with a window and G for the others, which repeats.
func (c *hfConfig) windowPattern(h *Hyper) {
	const key = "sliding_window_pattern"
	if !c.has(key) || c.fields[key][0] != '"' {
		h.WindowPattern = c.num(key, c.num("_"+key, 0))
		return
	}
	letters := c.str(key)
	if strings.Trim(letters, "LG") != "" || letters == "" {
		c.fail(fmt.Errorf("%w: %s: field %s: %q has other letters than L and G", ErrUnsupported, c.path, key, letters))
		return
	}
	for l := len(h.LayerTypes); l < len(h.KVHeads); l++ {
		kind := FullAttention
		if letters[l%len(letters)] == 'L' && h.Window > 0 {
			kind = SlidingAttention
		}
		h.LayerTypes = append(h.LayerTypes, kind)
	}
}

// clampedSlope is the steepness of the sigmoid of ClampedSiLU.
const clampedSlope = 1.702

func (c *hfConfig) experts(h *Hyper) {
	h.Experts = c.num("num_local_experts", c.num("num_experts", c.num("n_routed_experts", 0)))
	h.ExpertsUsed = c.num("num_experts_per_tok", 0)
	h.ExpertFFN = c.num("moe_intermediate_size", h.FFN)
	h.SharedFFN = c.num("shared_expert_intermediate_size", 0)
	h.NormTopK = c.boolean("norm_topk_prob")
	h.RoutedScale = c.float("routed_scaling_factor", 0)
	h.Groups = ExpertGroups{c.num("n_group", 1), c.num("topk_group", 0), 1}
	for l := range min(c.num("num_dense_layers", 0), len(h.KVHeads)) {
		h.DenseLayers = append(h.DenseLayers, l)
	}
	h.GateLimit = c.float("swiglu_limit", 0)
	if slope := c.float("swiglu_alpha", clampedSlope); math.Abs(slope-clampedSlope) > 1e-6 {
		c.fail(fmt.Errorf("%w: %s: field swiglu_alpha: %v, where the clamped activation has %v", ErrUnsupported, c.path, slope, clampedSlope))
	}
	h.ExpertInterval = c.num("decoder_sparse_step", 1)
	c.get("mlp_only_layers", &h.DenseLayers)
}

// ropes reads rope_parameters, or the older fields without it.
func (c *hfConfig) ropes(h *Hyper) {
	fraction := c.float("partial_rotary_factor", c.float("rotary_pct", 0))
	flat := RopeHyper{Base: c.float("rope_theta", c.float("rotary_emb_base", 10000))}
	h.Rope = flat
	if params := c.object("rope_parameters"); params != nil {
		if full := params.object("full_attention"); full != nil {
			h.Rope = full.rope(flat, &fraction)
			if local := params.object("sliding_attention"); local != nil {
				flat.Base = c.float("rope_local_base_freq", flat.Base)
				whole := 0.0 // the fraction is that of the layers without a window
				r := local.rope(flat, &whole)
				h.RopeLocal = &r
				c.fail(local.Err)
			}
			c.fail(full.Err)
		} else {
			h.Rope = params.rope(flat, &fraction)
		}
		h.QueryGrowth = params.float("llama_4_scaling_beta", 0)
		c.fail(params.Err)
	} else {
		if scaling := c.object("rope_scaling"); scaling != nil {
			h.Rope = scaling.rope(flat, &fraction)
			h.QueryGrowth = scaling.float("llama_4_scaling_beta", 0)
			c.fail(scaling.Err)
		}
		if base := c.float("rope_local_base_freq", 0); base != 0 {
			h.RopeLocal = &RopeHyper{Base: base}
		}
	}
	// The field outside of the scaling object takes precedence.
	h.Rope.OriginalContext = c.num("original_max_position_embeddings", h.Rope.OriginalContext)
	if fraction > 0 && fraction < 1 {
		h.RopeDim = int(float64(h.HeadDim)*fraction) &^ 1
	}
}

// rope reads one rope_scaling or rope_parameters object. outer has the base if the object
// lacks it.
func (c *hfConfig) rope(outer RopeHyper, fraction *float64) RopeHyper {
	r := outer
	r.Kind = c.str("type")
	if c.has("rope_type") {
		r.Kind = c.str("rope_type")
	}
	r.Base = c.float("rope_theta", r.Base)
	r.Factor = c.float("factor", 0)
	r.Alpha = c.float("alpha", 0)
	r.OriginalContext = c.num("original_max_position_embeddings", 0)
	r.LowFreqFactor = c.float("low_freq_factor", 0)
	r.HighFreqFactor = c.float("high_freq_factor", 0)
	r.BetaFast = c.float("beta_fast", 0)
	r.BetaSlow = c.float("beta_slow", 0)
	r.AttnFactor = c.float("attention_factor", 0)
	r.MScale = c.float("mscale", 0)
	r.MScaleAllDim = c.float("mscale_all_dim", 0)
	if t := c.boolean("truncate"); t != nil {
		r.NoTruncate = !*t
	}
	c.get("short_factor", &r.Short)
	c.get("long_factor", &r.Long)
	*fraction = c.float("partial_rotary_factor", *fraction)
	return r
}

// has reports whether a field exists and is not null.
func (c *hfConfig) has(key string) bool {
	raw, ok := c.fields[key]
	return ok && !bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

// get decodes a field into v. It leaves v unchanged if the field is absent or null.
func (c *hfConfig) get(key string, v any) {
	if !c.has(key) {
		return
	}
	if err := json.Unmarshal(c.fields[key], v); err != nil {
		c.fail(fmt.Errorf("%w: %s: field %s: %w", ErrModel, c.path, key, err))
	}
}

// fail records the first error.
func (c *hfConfig) fail(err error) {
	if c.Err == nil {
		c.Err = err
	}
}

// required returns a required integer.
func (c *hfConfig) required(key string) int {
	if !c.has(key) {
		c.fail(fmt.Errorf("%w: %s: field %s is missing", ErrModel, c.path, key))
	}
	return c.num(key, 0)
}

func (c *hfConfig) num(key string, fallback int) int {
	v := float64(fallback)
	c.get(key, &v)
	if v != math.Trunc(v) || math.Abs(v) > 1<<52 {
		c.fail(fmt.Errorf("%w: %s: field %s: %v is not a whole number in range", ErrModel, c.path, key, v))
		return fallback
	}
	return int(v)
}

func (c *hfConfig) float(key string, fallback float64) float64 {
	c.get(key, &fallback)
	return fallback
}

func (c *hfConfig) str(key string) string {
	var v string
	c.get(key, &v)
	return v
}

func (c *hfConfig) boolean(key string) *bool {
	if !c.has(key) {
		return nil
	}
	var v bool
	c.get(key, &v)
	return &v
}

func (c *hfConfig) object(key string) *hfConfig {
	if !c.has(key) {
		return nil
	}
	o := &hfConfig{path: c.path + ": " + key}
	c.get(key, &o.fields)
	return o
}
