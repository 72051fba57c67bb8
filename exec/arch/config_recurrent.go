package arch

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/llmrun/llmrun/store"
)

// first returns the first of some fields that the file has.
func (c *hfConfig) first(keys ...string) int {
	for _, key := range keys {
		if c.has(key) {
			return c.num(key, 0)
		}
	}
	return 0
}

// countLayers counts the layers of files that list them and do not state their number.
func (c *hfConfig) countLayers() {
	if c.has("num_hidden_layers") {
		return
	}
	n := len(c.str("hybrid_override_pattern"))
	if c.has("layers_block_type") {
		var kinds []json.RawMessage
		c.get("layers_block_type", &kinds)
		n = len(kinds)
	}
	if n > 0 {
		c.fields["num_hidden_layers"] = json.RawMessage(strconv.Itoa(n))
	}
}

// headWidth returns the width of a Mamba-2 head. "auto" is what the inner width gives each head.
func (c *hfConfig) headWidth(h *Hyper, heads int) int {
	if raw := string(c.fields["mamba_d_head"]); raw == `"auto"` {
		return c.num("mamba_d_ssm", int(c.float("mamba_expand", 2)*float64(h.Dim))) / max(1, heads)
	}
	return c.first("linear_value_head_dim", "mamba_d_head", "mamba_head_dim", "head_dim")
}

// recurrence reads the sizes of layers with matrices, whose fields have a name in each line of families.
func (c *hfConfig) recurrence(h *Hyper) {
	if !c.has("linear_conv_kernel_dim") && !c.has("mamba_d_conv") && !c.has("conv_kernel") {
		return
	}
	h.Recurrence = Recurrence{
		Taps:   c.first("linear_conv_kernel_dim", "mamba_d_conv", "conv_kernel"),
		Heads:  c.first("linear_num_value_heads", "mamba_n_heads", "mamba_num_heads", "num_heads"),
		Groups: c.first("linear_num_key_heads", "mamba_n_groups", "n_groups"),
		Key:    c.first("linear_key_head_dim", "mamba_d_state", "ssm_state_size", "state_size"),
	}
	h.Recurrence.Value = c.headWidth(h, h.Recurrence.Heads)
	if norms := c.boolean("mamba_rms_norm"); norms == nil || *norms {
		h.Recurrence.NormGroups = h.Recurrence.Groups
	}
	if first := c.boolean("mamba_norm_before_gate"); first != nil {
		h.Recurrence.NormFirst = *first
	}
	var limits []*float64
	if c.get("time_step_limit", &limits); len(limits) == 2 && (limits[1] != nil || limits[0] != nil && *limits[0] > 0) {
		c.fail(fmt.Errorf("%w: %s: field time_step_limit: the steps of recurrent layers have limits", ErrUnsupported, c.path))
	}
	refused := []string{"mamba_proj_bias", "use_bias"}
	if c.float("attention_in_multiplier", 1) != 1 {
		refused = append(refused, "attention_bias") // the multiplier is folded into products that have the biases
	}
	for _, key := range refused {
		if bias := c.boolean(key); bias != nil && *bias {
			c.fail(fmt.Errorf("%w: %s: field %s: biases beside recurrent layers", ErrUnsupported, c.path, key))
		}
	}
}

// layerPattern reads the types of layers where they are not listed one by one: every n-th layer attends, or a text has a
// letter for each layer.
func (c *hfConfig) layerPattern(h *Hyper) {
	if interval := c.num("full_attention_interval", 0); interval > 0 && h.LayerTypes == nil {
		for l := range h.KVHeads {
			kind := linearAttention
			if (l+1)%interval == 0 {
				kind = FullAttention
			}
			h.LayerTypes = append(h.LayerTypes, kind)
		}
	}
	for i, kind := range h.LayerTypes {
		if kind == "attention" {
			h.LayerTypes[i] = FullAttention
		}
	}
	c.blockTypes(h)
	if h.LayerTypes == nil && h.Family == graniteHybrid.name {
		h.LayerTypes = slices.Repeat([]string{mamba}, len(h.KVHeads))
	}
	pattern := c.str("hybrid_override_pattern")
	if len(pattern) > maxLayers {
		c.fail(fmt.Errorf("%w: %s: field hybrid_override_pattern: %d layers, more than %d", ErrModel, c.path, len(pattern), maxLayers))
		return
	}
	for l, letter := range pattern {
		kind, ok := map[rune]string{'M': mamba, '*': FullAttention, '-': noMixer, 'E': noMixer}[letter]
		if !ok {
			c.fail(fmt.Errorf("%w: %s: field hybrid_override_pattern: layer %d is %q", ErrUnsupported, c.path, l, letter))
			return
		}
		h.LayerTypes = append(h.LayerTypes, kind)
		if letter == '-' {
			h.DenseLayers = append(h.DenseLayers, l)
		}
	}
}

// blockTypes reads the types of layers that have one block each, where they are listed by name.
func (c *hfConfig) blockTypes(h *Hyper) {
	const key = "layers_block_type"
	var kinds []string
	if c.get(key, &kinds); kinds == nil || h.LayerTypes != nil {
		return
	}
	for l, name := range kinds {
		kind, ok := map[string]string{
			"mamba": mamba, linearAttention: mamba, "attention": FullAttention, FullAttention: FullAttention, "mlp": noMixer, "moe": noMixer,
		}[name]
		if !ok {
			c.fail(fmt.Errorf("%w: %s: field %s: layer %d is %q", ErrUnsupported, c.path, key, l, name))
			return
		}
		h.LayerTypes = append(h.LayerTypes, kind)
		if name == "mlp" {
			h.DenseLayers = append(h.DenseLayers, l)
		}
	}
}

// infinity is a number that the configurations of Mamba-2 have, although JSON does not; newer files have an object for it.
var infinity = regexp.MustCompile(`([:\[,]\s*)(?:-?Infinity\b|\{\s*"__float__"\s*:\s*"-?Infinity"\s*\})`)

// WithoutInfinity returns a configuration in which numbers that are infinite are null.
func WithoutInfinity(data []byte) []byte { return infinity.ReplaceAll(data, []byte("${1}null")) }

// attends reports whether layers of a type have keys and values.
func attends(kind string) bool {
	return !slices.Contains([]string{convolution, linearAttention, mamba, noMixer}, kind)
}

// attentionIntervals are every how many layers families attend whose first GGUF files omit it.
var attentionIntervals = map[string]int{"qwen35": 4, "qwen35moe": 4, "qwen3next": 4}

// recurrence reads the sizes of layers with matrices, and which layers these are.
func (c *GGUFConfig) recurrence(h *Hyper) {
	r := &h.Recurrence
	if r.Taps = c.Num("ssm.conv_kernel", 0); r.Taps == 0 {
		return
	}
	r.Heads, r.Groups, r.Key = c.Num("ssm.time_step_rank", 0), c.Num("ssm.group_count", 1), c.Num("ssm.state_size", 0)
	if r.Heads > 0 {
		r.Value = c.Num("ssm.inner_size", 0) / r.Heads
	}
	r.NormGroups = r.Groups
	c.blockPattern(h)
	recurs, _, err := c.Meta.Bools(c.Key("attention.recurrent_layers"))
	c.fail(err)
	interval := c.Num("full_attention_interval", attentionIntervals[h.Family])
	for l := range h.KVHeads {
		if l < len(recurs) && recurs[l] || recurs == nil && interval > 0 && (l+1)%interval != 0 {
			h.KVHeads[l] = 0
		}
	}
}

// blockPattern finds the layers that are an MLP alone: those with an inner width, if each layer has a width of its own.
func (c *GGUFConfig) blockPattern(h *Hyper) {
	if !c.Meta.IsArray(c.Key("feed_forward_length")) || len(h.KVHeads) != h.Layers {
		return
	}
	for l, width := range c.perLayer("feed_forward_length", h.Layers, 0) {
		kind := mamba
		switch {
		case h.KVHeads[l] > 0:
			kind = FullAttention
		case width > 0:
			kind = noMixer
		}
		h.LayerTypes = append(h.LayerTypes, kind)
	}
}

// stateNorms notes that no layer with matrices normalizes its output, if the file has no such norms.
func stateNorms(src store.Source, h *Hyper) {
	for _, t := range src.Tensors() {
		if strings.HasSuffix(t.Name, "ssm_norm.weight") {
			return
		}
	}
	h.Recurrence.NormGroups = 0
}
