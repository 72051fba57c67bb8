package arch

import "fmt"

// bert is an encoder with learned positions and a norm behind each residual sum.
var bert = Family{
	name: "bert", hf: []string{"bert"}, gguf: []string{"bert"}, names: bertNames, describe: describeBERT,
	defaults: bertDefaults(map[string]string{"layer_norm_eps": "1e-12", "max_position_embeddings": "512", "vocab_size": "30522"}),
	encoder:  true,
	only:     bertOnly,
}

// bertOnly are what encoders of bert's kind have in fields that choose another attention.
var bertOnly = map[string]string{"position_embedding_type": `"absolute"`, "is_decoder": "false", "add_cross_attention": "false"}

// roberta is bert whose first positions belong to padding. The converter for GGUF leaves them out, and writes bert.
var roberta = Family{
	name: "roberta", hf: []string{"roberta", "xlm-roberta", "camembert"}, names: bertNames, encoder: true, only: bertOnly,
	defaults: bertDefaults(map[string]string{"layer_norm_eps": "1e-12", "max_position_embeddings": "512", "pad_token_id": "1"}),
	complete: func(h *Hyper) {
		h.Context -= h.PadToken + 1
	},
	describe: func(h *Hyper, s *Spec) error {
		s.Encoder.PositionFrom = h.PadToken + 1
		return describeBERT(h, s)
	},
}

// bertDefaults are the fields that files of bert's kind may omit.
func bertDefaults(more map[string]string) map[string]string {
	return withNames(map[string]string{
		"hidden_act": `"gelu"`, "type_vocab_size": "2", "hidden_size": "768", "num_hidden_layers": "12", "num_attention_heads": "12", "intermediate_size": "3072",
	}, more)
}

func describeBERT(h *Hyper, s *Spec) error {
	s.Act, s.Gated = GELUErf, false
	s.Encoder.Positions = h.Positions
	s.normSums(h)
	s.unrotated()
	return nil
}

// normSums sets the norms of bert's kind.
func (s *Spec) normSums(h *Hyper) {
	s.PreNorm, s.SumNorm, s.Norm.Layer = false, true, true
	s.Encoder.EmbedNorm, s.Encoder.NoFinalNorm = true, true
	s.Encoder.TokenTypes = h.TokenTypes
}

// unrotated removes the rotary tables.
func (s *Spec) unrotated() {
	s.Ropes = nil
	for l := range s.Layers {
		s.Layers[l].Rope = -1
	}
}

var bertNames = map[string]string{
	"layers":            "model.encoder.layer",
	"token_embd":        "model.embeddings.word_embeddings",
	"position_embd":     "model.embeddings.position_embeddings",
	"token_types":       "model.embeddings.token_type_embeddings",
	"token_embd_norm":   "model.embeddings.LayerNorm",
	"attn_q":            "attention.self.query",
	"attn_k":            "attention.self.key",
	"attn_v":            "attention.self.value",
	"attn_output":       "attention.output.dense",
	"attn_output_norm":  "attention.output.LayerNorm",
	"ffn_up":            "intermediate.dense",
	"ffn_down":          "output.dense",
	"layer_output_norm": "output.LayerNorm",
}

// nomicBERT is bert with rotary positions and a gated MLP.
var nomicBERT = Family{
	name: "nomic-bert", hf: []string{"nomic_bert"}, gguf: []string{"nomic-bert"}, encoder: true,
	only: map[string]string{
		"use_rms_norm": "false", "parallel_block": "false", "rotary_emb_interleaved": "false", "rotary_emb_scale_base": "0", "scale_attn_weights": "true",
		"scale_attn_by_inverse_layer_idx": "false", "moe_every_n_layers": "0", "prenorm": "false",
	},
	defaults: map[string]string{"type_vocab_size": "2", "rotary_emb_base": "1000", "layer_norm_epsilon": "1e-12", "activation_function": `"swiglu"`},
	aliases: map[string]string{
		"n_embd": "hidden_size", "n_head": "num_attention_heads", "n_layer": "num_hidden_layers", "n_inner": "intermediate_size",
		"n_positions": "max_position_embeddings", "activation_function": "hidden_act", "rotary_emb_fraction": "partial_rotary_factor",
	},
	complete: func(h *Hyper) {
		switch h.Activation { // named with its gate
		case "swiglu":
			h.Activation = "silu"
		case "geglu":
			h.Activation = "gelu"
		case "":
		default:
			h.Activation += ", which has no gate"
		}
	},
	describe: func(h *Hyper, s *Spec) error {
		if h.Unrotated {
			return fmt.Errorf("%w: %s: field rotary_emb_fraction: 0; only encoders with rotations are computed", ErrUnsupported, h.Path)
		}
		s.normSums(h)
		return nil
	},
	names: map[string]string{
		"layers":            "model.encoder.layers",
		"token_embd":        "model.embeddings.word_embeddings",
		"token_types":       "model.embeddings.token_type_embeddings",
		"token_embd_norm":   "model.emb_ln",
		"attn_qkv":          "attn.Wqkv",
		"attn_output":       "attn.out_proj",
		"attn_output_norm":  "norm1",
		"ffn_up":            "mlp.fc11",
		"ffn_gate":          "mlp.fc12",
		"ffn_down":          "mlp.fc2",
		"layer_output_norm": "norm2",
	},
}

// ModernBERT is the name of the family modernBERT.
const ModernBERT = "modern-bert"

// modernBERT is an encoder with norms before attention and MLP, rotary positions, and windows in all layers but every n-th,
// of which the first layer is one.
var modernBERT = Family{
	name: ModernBERT, hf: []string{"modernbert"}, gguf: []string{"modern-bert"},
	defaults: map[string]string{
		"global_rope_theta": "160000", "local_rope_theta": "10000", "global_attn_every_n_layers": "3", "local_attention": "128",
		"hidden_activation": `"gelu"`, "norm_eps": "1e-5", "max_position_embeddings": "8192",
	},
	aliases: map[string]string{
		"local_attention": "sliding_window", "global_attn_every_n_layers": "sliding_window_pattern",
		"global_rope_theta": "rope_theta", "local_rope_theta": "rope_local_base_freq",
	},
	encoder: true,
	describe: func(h *Hyper, s *Spec) error {
		s.Act, s.Norm.Layer = GELUErf, true
		s.Encoder.EmbedNorm = true
		s.Layers[0].NoAttnNorm = true // the norm of the embedding is before it
		every := max(1, h.WindowPattern)
		s.setWindows(h, func(l int) bool { return l%every != 0 })
		if h.RopeLocal != nil {
			s.useLocalRope()
		}
		return nil
	},
	names: map[string]string{
		"token_embd":      "model.embeddings.tok_embeddings",
		"token_embd_norm": "model.embeddings.norm",
		"output_norm":     "model.final_norm",
		"attn_norm":       "attn_norm",
		"attn_qkv":        "attn.Wqkv",
		"attn_output":     "attn.Wo",
		"ffn_norm":        "mlp_norm",
		"ffn_up":          "mlp.Wi",
		"ffn_down":        "mlp.Wo",
	},
}
