package arch

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Sanity limits, far above those of known models. The product of any two fits an int64.
const (
	maxLayers  = 4096
	maxDim     = 1 << 20
	maxHeads   = 1 << 14
	maxVocab   = 1 << 24
	maxExperts = 4096
	maxContext = 1 << 28
	maxStreams = 8 // of AltUp, as in package altup
)

// keyName is the name of a value in both kinds of file: the GGUF key after the
// architecture's name, and the field of config.json.
type keyName struct{ gguf, hf string }

// in returns the name in the file that h was read from.
func (k keyName) in(h *Hyper) string {
	if h.GGUF {
		return "key " + h.arch + "." + k.gguf
	}
	return "field " + k.hf
}

// The names of values that are checked in several places.
var (
	keyContext    = keyName{"context_length", "max_position_embeddings"}
	KeyLayers     = keyName{"block_count", "num_hidden_layers"}
	keyKVHeads    = keyName{"attention.head_count_kv", "num_key_value_heads"}
	keyRopeDim    = keyName{"rope.dimension_count", "partial_rotary_factor"}
	keyLayerTypes = keyName{"attention.sliding_window_pattern", "layer_types"}
	keyConvTaps   = keyName{"shortconv.l_cache", "conv_L_cache"}
	keyWindow     = keyName{"attention.sliding_window", "sliding_window"}

	keyConvKernel  = keyName{"ssm.conv_kernel", "conv_kernel"}
	keyStateHeads  = keyName{"ssm.time_step_rank", "num_heads"}
	keyStateGroups = keyName{"ssm.group_count", "n_groups"}
	keyStateSize   = keyName{"ssm.state_size", "state_size"}
)

// FieldError returns the error for an invalid value in the model's file.
func (h *Hyper) FieldError(key keyName, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s: %s", ErrModel, h.Path, key.in(h), fmt.Sprintf(format, args...))
}

// validate checks the values that every family relies on, so that later code can divide by
// them and allocate by them.
func (h *Hyper) validate() error {
	for _, check := range []func() error{
		h.validateSizes, h.validateHeads, h.validateLayerTypes, h.validateExperts, h.validateGemma, h.validateLatent, h.validateGroups, h.validateScalars, h.validateRopes, h.validateEncoder,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// validateSizes checks the integers against their limits.
func (h *Hyper) validateSizes() error {
	for _, c := range []struct {
		key      keyName
		v        int
		min, max int
	}{
		{KeyLayers, h.Layers, 1, maxLayers},
		{keyName{"nextn_predict_layers", "num_nextn_predict_layers"}, h.NextLayers, 0, maxLayers},
		{keyName{"embedding_length", "hidden_size"}, h.Dim, 1, maxDim},
		{keyName{"attention.head_count", "num_attention_heads"}, h.Heads, 1, maxHeads},
		{keyName{"attention.key_length", "head_dim"}, h.HeadDim, 1, maxDim},
		{keyName{"feed_forward_length", "intermediate_size"}, h.FFN, 0, maxDim},
		{keyName{"vocab_size", "vocab_size"}, h.Vocab, 1, maxVocab},
		{keyContext, h.Context, 1, maxContext},
		{keyName{"expert_count", "num_experts"}, h.Experts, 0, maxExperts},
		{keyName{"expert_feed_forward_length", "moe_intermediate_size"}, h.ExpertFFN, 0, maxDim},
		{keyWindow, h.Window, 0, math.MaxInt32},
		{keyRopeDim, h.RopeDim, 0, maxDim},
		{keyConvTaps, h.ConvTaps, 0, 64},
	} {
		if c.v < c.min || c.v > c.max {
			return h.FieldError(c.key, "%d is outside %d…%d", c.v, c.min, c.max)
		}
	}
	return nil
}

// validateRopes checks the rotary tables.
func (h *Hyper) validateRopes() error {
	if h.RopeDim > h.HeadDim || h.RopeDim%2 != 0 {
		return h.FieldError(keyRopeDim, "%d rotated elements must be even and at most the head size %d", h.RopeDim, h.HeadDim)
	}
	if err := h.validateRope("rope.freq_base", "rope_theta", &h.Rope); err != nil {
		return err
	}
	if h.RopeLocal != nil {
		return h.validateRope("rope.freq_base_swa", "rope_local_base_freq", h.RopeLocal)
	}
	return nil
}

func (h *Hyper) validateHeads() error {
	if len(h.KVHeads) != h.Layers {
		return h.FieldError(keyKVHeads, "%d entries for %d layers", len(h.KVHeads), h.Layers)
	}
	for l, kv := range h.KVHeads {
		if kv < 0 || kv > h.Heads || (kv > 0 && h.Heads%kv != 0) {
			return h.FieldError(keyKVHeads, "%d in layer %d do not divide %d heads", kv, l, h.Heads)
		}
	}
	return nil
}

// unknownType returns the error for a layer of a type that the family does not have.
func (h *Hyper) unknownType(layer int) error {
	return fmt.Errorf("%w: %s: %s: layer %d is %q", ErrUnsupported, h.Path, keyLayerTypes.in(h), layer, h.LayerTypes[layer])
}

// layerTypes are the known types of layers.
var layerTypes = []string{FullAttention, SlidingAttention, convolution, linearAttention, mamba, hybrid, noMixer}

func (h *Hyper) validateLayerTypes() error {
	if h.LayerTypes == nil {
		return nil
	}
	if len(h.LayerTypes) != h.Layers {
		return h.FieldError(keyLayerTypes, "%d entries for %d layers", len(h.LayerTypes), h.Layers)
	}
	for l, kind := range h.LayerTypes {
		switch {
		case !slices.Contains(layerTypes, kind):
			return h.unknownType(l)
		case kind == SlidingAttention && h.Window == 0:
			return h.FieldError(keyWindow, "is missing, but layer %d has a sliding window", l)
		}
	}
	return nil
}

func (h *Hyper) validateExperts() error {
	used := keyName{"expert_used_count", "num_experts_per_tok"}
	if h.ExpertsUsed < 0 || h.ExpertsUsed > h.Experts {
		return h.FieldError(used, "%d of only %d experts", h.ExpertsUsed, h.Experts)
	}
	if h.Experts > 0 && h.ExpertsUsed == 0 {
		return h.FieldError(used, "0 of %d experts", h.Experts)
	}
	if len(h.DenseLayers) > 3*h.Layers { // three fields list some; the check of each layer looks at all
		return h.FieldError(keyName{"", "mlp_only_layers"}, "%d entries for %d layers", len(h.DenseLayers), h.Layers)
	}
	return nil
}

// validateScalars checks the floating-point values.
func (h *Hyper) validateScalars() error {
	eps := keyName{"attention.layer_norm_rms_epsilon", "rms_norm_eps"}
	if v := float64(h.NormEps); !(v >= 0 && v < 1) {
		return h.FieldError(eps, "%v is not between 0 and 1", h.NormEps)
	}
	for _, c := range []struct {
		key keyName
		v   float64
	}{
		{keyName{"attention.scale", "attention_multiplier"}, h.AttnScale},
		{keyName{"attention.temperature_scale", "rope_parameters.llama_4_scaling_beta"}, h.QueryGrowth},
		{keyName{"attn_logit_softcapping", "attn_logit_softcapping"}, float64(h.AttnSoftcap)},
		{keyName{"final_logit_softcapping", "final_logit_softcapping"}, float64(h.FinalSoftcap)},
		{keyName{"embedding_scale", "embedding_multiplier"}, h.EmbedScale},
		{keyName{"residual_scale", "residual_multiplier"}, h.ResidualScale},
		{keyName{"logit_scale", "logits_scaling"}, h.LogitScale},
		{keyName{"swiglu_limit", "swiglu_limit"}, h.GateLimit},
		{keyName{"attention.clamp_kqv", "clip_qkv"}, float64(h.ClipQKV)},
		{keyName{"expert_weights_scale", "routed_scaling_factor"}, h.RoutedScale},
	} {
		if err := h.notNegative(c.key, c.v); err != nil {
			return err
		}
	}
	return nil
}

// notNegative returns an error unless v is a finite number of at least 0.
func (h *Hyper) notNegative(key keyName, v float64) error {
	if !(v >= 0) || math.IsInf(v, 0) {
		return h.FieldError(key, "%v is not a finite number of at least 0", v)
	}
	return nil
}

// validateRope checks the hyper-parameters of a rotary table. base is the key in both kinds
// of file.
func (h *Hyper) validateRope(baseGGUF, baseHF string, r *RopeHyper) error {
	if base := (keyName{baseGGUF, baseHF}); !(r.Base > 0) || math.IsInf(r.Base, 0) {
		return h.FieldError(base, "%v is not a positive number", r.Base)
	}
	for _, c := range []struct {
		key keyName
		v   float64
	}{
		{keyName{"rope.scaling.factor", "rope_scaling.factor"}, r.Factor},
		{keyName{"rope.scaling.alpha", "rope_scaling.alpha"}, r.Alpha},
		{keyName{"rope.scaling.original_context_length", "original_max_position_embeddings"}, float64(r.OriginalContext)},
		{keyName{"rope.scaling.low_freq_factor", "low_freq_factor"}, r.LowFreqFactor},
		{keyName{"rope.scaling.high_freq_factor", "high_freq_factor"}, r.HighFreqFactor},
		{keyName{"rope.scaling.yarn_beta_fast", "beta_fast"}, r.BetaFast},
		{keyName{"rope.scaling.yarn_beta_slow", "beta_slow"}, r.BetaSlow},
		{keyName{"rope.scaling.attn_factor", "attention_factor"}, r.AttnFactor},
		{keyName{"rope.scaling.mscale", "mscale"}, r.MScale},
		{keyName{"rope.scaling.yarn_log_multiplier", "mscale_all_dim"}, r.MScaleAllDim},
	} {
		if err := h.notNegative(c.key, c.v); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		name   string
		values []float64
	}{{"short factors", r.Short}, {"long factors", r.Long}, {"rope_freqs.weight", r.Divisors}} {
		for i, v := range f.values {
			if !(v > 0) || math.IsInf(v, 0) {
				return fmt.Errorf("%w: %s: rope %s: entry %d is %v, not a positive number", ErrModel, h.Path, f.name, i, v)
			}
		}
	}
	return nil
}

// Errors of opening a model.
var (
	// ErrModel reports that a model file contradicts itself, or that a tensor is missing or
	// has the wrong shape.
	ErrModel = errors.New("malformed model")
	// ErrUnsupported reports that a file requests something that the engine does not
	// implement; the message names it.
	ErrUnsupported = errors.New("not supported")
)
