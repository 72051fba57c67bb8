package arch

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/llmrun/llmrun/store"
)

// bidirectional reports whether the tokens of a model of config.json attend to later ones.
func (c *hfConfig) bidirectional() bool {
	if causal := c.boolean("is_causal"); causal != nil && !*causal {
		return true
	}
	raw := string(c.fields["use_bidirectional_attention"])
	return raw == "true" || raw == `"all"` // "vision": only between the parts of an image
}

// encoder reads the fields of encoders.
func (c *hfConfig) encoder(h *Hyper) {
	h.Positions, h.PadToken = h.Context, c.num("pad_token_id", 0)
	h.TokenTypes = c.num(keyTypes.hf, 0)
	h.Unrotated = c.has("rotary_emb_fraction") && c.float("rotary_emb_fraction", 1) == 0
	if trained := c.num("max_trained_positions", 0); c.has("rotary_scaling_factor") && trained > 0 {
		h.Context = min(h.Context, trained) // rotations of longer texts depend on their length
	}
}

// checkOnly refuses fields whose value asks for arithmetic that a family does not implement.
func (c *hfConfig) checkOnly(only map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(only)) {
		if want := only[key]; c.has(key) && string(bytes.TrimSpace(c.fields[key])) != want {
			c.fail(fmt.Errorf("%w: %s: field %s: %s; only %s is computed", ErrUnsupported, c.path, key, c.fields[key], want))
		}
	}
}

// encoder reads the keys of encoders.
func (c *GGUFConfig) encoder(h *Hyper, weights store.Source) {
	if causal := c.boolean("attention.causal"); causal != nil && !*causal {
		h.Bidirectional = true
	}
	h.Positions = h.Context
	types, _, err := c.Meta.Int("tokenizer.ggml.token_type_count")
	c.fail(err)
	if types > maxTypes || types < 0 {
		c.fail(fmt.Errorf("%w: %s: key tokenizer.ggml.token_type_count: %d is outside 0…%d", ErrModel, c.Path, types, maxTypes))
		types = 0
	}
	h.TokenTypes = int(types)
	if t, ok := weights.Tensor("token_types.weight"); ok && types == 0 && len(t.Shape) > 0 { // files without a vocabulary
		h.TokenTypes = t.Shape[0]
	}
	if kind := c.str("hidden_activation"); kind != "" {
		h.Activation = kind
	}
}

// maxTypes is the most types of tokens; known models have one or two.
const maxTypes = 1 << 10

// keyTypes names the number of token types.
var keyTypes = keyName{"token_type_count", "type_vocab_size"}

// validateEncoder checks the fields of encoders.
func (h *Hyper) validateEncoder() error {
	if h.TokenTypes < 0 || h.TokenTypes > maxTypes {
		return h.FieldError(keyTypes, "%d is outside 0…%d", h.TokenTypes, maxTypes)
	}
	if h.PadToken < -1 || h.PadToken > maxVocab {
		return h.FieldError(keyName{"padding_token_id", "pad_token_id"}, "%d is outside 0…%d", h.PadToken, maxVocab)
	}
	return nil
}

// makeBidirectional completes the description of a network whose tokens attend to later ones.
func (s *Spec) makeBidirectional(h *Hyper) error {
	s.Encoder.Bidirectional = h.Bidirectional
	if !h.Bidirectional {
		return nil
	}
	first := &s.Layers[0]
	for l := range s.Layers {
		layer := &s.Layers[l]
		if layer.Mixer != Attention || layer.KVBack > 0 || layer.KVHeads != first.KVHeads || layer.HeadDim != first.HeadDim || s.Latent.Rank > 0 || s.Sinks {
			return fmt.Errorf("%w: %s: attention to later tokens in layer %d of family %s, whose layers are not all of ordinary attention with heads of one size",
				ErrUnsupported, h.Path, l, s.Family)
		}
		if layer.Window > 0 { // files state the tokens of both sides
			layer.Window = layer.Window/2 + 1
		}
	}
	return nil
}
