package arch

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
)

// Family is a kind of network: the names by which files identify it, the conversion of its
// hyper-parameters to a Spec, and the tensor names that differ from commonNames.
type Family struct {
	name string
	hf   []string // model_type values of config.json
	gguf []string // general.architecture values
	// complete, which may be nil, sets hyper-parameters that the family's files omit.
	complete func(h *Hyper)
	describe func(h *Hyper, s *Spec) error
	// defaults are the values, in JSON, of the config.json fields that files of this family
	// may omit.
	defaults map[string]string
	// typeDefaults are further ones for some of the values of hf.
	typeDefaults map[string]map[string]string
	// encoder: tokens attend to later ones too.
	encoder bool
	// only are the values, in JSON, that config.json fields must have if they are there and not null: others ask for another
	// arithmetic.
	only map[string]string
	// aliases maps other names of config.json fields to those that are read.
	aliases map[string]string

	// names maps a role to the tensor's name in safetensors files, if it differs from
	// commonNames.
	names map[string]string
	// QKV is the row order of a fused query/key/value tensor in safetensors files. GGUF
	// files always use QKVBlocks.
	QKV fusedOrder
	// interleave: GGUF converters permute the rows of this family's queries and keys so
	// that the elements of a rotary pair are adjacent.
	interleave bool
	// adjacent: the elements of a rotary pair are adjacent in all files.
	adjacent bool
	// ggufNames maps a role to the role that GGUF files of this family give its tensor.
	ggufNames map[string]string
}

// fusedOrder is the order of rows in a fused query/key/value projection.
type fusedOrder uint8

// The orders in which families store a fused query/key/value projection.
const (
	QKVBlocks  fusedOrder = iota // all queries, all keys, all values
	QKVPerHead                   // for each head: query, key, value
	QKVPerKV                     // for each KV head: its queries, the key, the value
)

// families is the registry; a new family adds its variable here.
var families = []*Family{
	&Llama, &mistral, &mixtral, &qwen2, &qwen2moe, &qwen3, &qwen3moe, &gemma, &gemma2, &gemma3, &gemma3n, &gemma4, &deepseek2, &minicpm3,
	&phi2, &phi3, &internlm2, &gptneox, &olmo2, &olmoe, &granite, &smollm3, &lfm2,
	&lfm2moe, &qwen35, &qwen35moe, &qwen3next, &mamba2, &nemotronH, &graniteHybrid, &falconH1,
	&bert, &roberta, &nomicBERT, &modernBERT,
	&gptOSS, &ministral3, &exaone4, &hunyuan, &ernie45, &seedOSS, &cohere2, &glm4,
}

// familyByHF returns the family of a config.json's model_type.
func familyByHF(modelType string) (*Family, error) {
	return findFamily(modelType, func(f *Family) []string { return f.hf })
}

// familyByGGUF returns the family of a general.architecture value.
func familyByGGUF(arch string) (*Family, error) {
	return findFamily(arch, func(f *Family) []string { return f.gguf })
}

func findFamily(name string, keys func(*Family) []string) (*Family, error) {
	var known []string
	for _, f := range families {
		for _, k := range keys(f) {
			if k == name {
				return f, nil
			}
			known = append(known, k)
		}
	}
	sort.Strings(known)
	return nil, fmt.Errorf("%w: model family %q (known: %s)", ErrUnsupported, name, strings.Join(known, ", "))
}

// Spec converts hyper-parameters to a network of this family.
func (f *Family) Spec(h *Hyper) (*Spec, error) {
	if f.complete != nil && !h.completed {
		f.complete(h)
		h.completed = true
	}
	if err := h.validate(); err != nil {
		return nil, err
	}
	h.Headless = h.Headless || h.Bidirectional
	s := newSpec(h)
	s.Interleave = h.GGUF && f.interleave || f.adjacent && !h.RotatesHalves
	if err := s.addRopes(h); err != nil {
		return nil, fmt.Errorf("%s: %w", h.Path, err)
	}
	if err := f.describe(h, s); err != nil {
		return nil, err
	}
	for l := range s.Layers {
		attending := s.Layers[l].Mixer.Attends()
		if attending && l < len(h.LayerTypes) && !attends(h.LayerTypes[l]) {
			return nil, h.unknownType(l)
		}
		if attending && s.Layers[l].KVHeads == 0 {
			return nil, h.FieldError(keyKVHeads, "0 in layer %d, which has attention", l)
		}
	}
	s.setHeads()
	if err := s.makeBidirectional(h); err != nil {
		return nil, err
	}
	if err := s.checkRotations(h); err != nil {
		return nil, err
	}
	if err := s.Recurrence.validate(h, s.Layers); err != nil {
		return nil, err
	}
	s.Context = h.scaledContext()
	s.ContextFrom = h.contextFrom(s.Context)
	return s, s.setActivation(h)
}

// scaledContext returns the longest sequence after rope scaling. Checkpoints whose users
// enable yarn themselves state the trained length.
func (h *Hyper) scaledContext() int {
	r := &h.Rope
	if _, original := r.contextScale(h.Context); len(r.Long) > 0 && original >= float64(h.Context) {
		// The long factors begin behind the context that the file states, and are for texts so many times longer.
		return int(math.Min(float64(h.Context)*math.Max(1, slices.Max(r.Long)), maxContext))
	}
	if r.Kind != "yarn" {
		return h.Context
	}
	stretched := math.Min(r.Factor*float64(r.OriginalContext), maxContext)
	return max(h.Context, int(stretched))
}

// contextFrom names the key or field that states the longest sequence, and rope scaling where that makes it longer.
func (h *Hyper) contextFrom(scaled int) string {
	from := keyContext.in(h)
	if scaled == h.Context {
		return from
	}
	return fmt.Sprintf("%s is %d, and %s scaling of its rotary positions makes it %d", from, h.Context, h.Rope.scaling(), scaled)
}

// scaling returns the name of the rope scaling.
func (r *RopeHyper) scaling() string {
	if len(r.Long) > 0 {
		return cmp.Or(r.Kind, "longrope")
	}
	return r.Kind
}

// addRopes computes the rotary tables: one for all layers, or a second one for layers with
// a sliding window.
func (s *Spec) addRopes(h *Hyper) error {
	dim := h.RopeDim
	if dim == 0 {
		dim = h.HeadDim
	}
	for _, r := range []*RopeHyper{&h.Rope, h.RopeLocal} {
		if r == nil {
			continue
		}
		t, err := NewRopeTable(r, cmp.Or(r.Dim, dim), h.Context)
		if err != nil {
			return err
		}
		s.Ropes = append(s.Ropes, t)
	}
	return nil
}

// checkRotations refuses layers whose rotary table is wider than what it turns.
func (s *Spec) checkRotations(h *Hyper) error {
	for l := range s.Layers {
		layer := &s.Layers[l]
		if layer.Rope < 0 || !layer.Mixer.Attends() {
			continue
		}
		width, key := layer.HeadDim, keyRopeDim
		if s.Latent.Rank > 0 {
			width = s.Latent.Rope
		}
		if layer.Window > 0 && h.Gemma.WindowHeadDim > 0 {
			key = keyName{"rope.freq_base_swa", "rope_parameters.sliding_attention"}
		}
		if layer.Rope >= len(s.Ropes) {
			return h.FieldError(key, "layer %d has no rotary table", l)
		}
		if dim := s.Ropes[layer.Rope].Dim; dim > width {
			return h.FieldError(key, "the rotary table of layer %d has %d elements, its heads only %d; without this value its table is that of layers without a window",
				l, dim, width)
		}
	}
	return nil
}

// setActivation applies the activation that the file names; the family has set its default
// before.
func (s *Spec) setActivation(h *Hyper) error {
	switch h.Activation {
	case "":
	case "silu", "swish":
		s.Act = SiLU
	case "gelu_pytorch_tanh", "gelu_new", "gelu_fast":
		s.Act = GELUTanh
	case "gelu":
		s.Act = GELUErf
	case "relu2":
		if s.Gated {
			return fmt.Errorf("%w: %s: field hidden_act: activation %q of an MLP with a gate", ErrUnsupported, h.Path, h.Activation)
		}
		s.Act = ReLU2
	default:
		return fmt.Errorf("%w: %s: field hidden_act: activation %q", ErrUnsupported, h.Path, h.Activation)
	}
	return nil
}

// commonNames maps roles to the tensor names of most safetensors checkpoints. Roles are the
// GGUF names, in a layer without "blk.N.", and %d is the expert.
var commonNames = map[string]string{
	"token_embd":  "model.embed_tokens",
	"output_norm": "model.norm",
	"output":      "lm_head",

	"attn_norm":           "input_layernorm",
	"attn_q":              "self_attn.q_proj",
	"attn_k":              "self_attn.k_proj",
	"attn_v":              "self_attn.v_proj",
	"attn_qkv":            "self_attn.qkv_proj",
	"attn_output":         "self_attn.o_proj",
	"attn_q_norm":         "self_attn.q_norm",
	"attn_k_norm":         "self_attn.k_norm",
	"ffn_norm":            "post_attention_layernorm",
	"ffn_gate":            "mlp.gate_proj",
	"ffn_up":              "mlp.up_proj",
	"ffn_down":            "mlp.down_proj",
	"ffn_gate_inp":        "mlp.gate",
	"ffn_gate_exps":       "mlp.experts.%d.gate_proj",
	"ffn_up_exps":         "mlp.experts.%d.up_proj",
	"ffn_down_exps":       "mlp.experts.%d.down_proj",
	"exp_probs_b.bias":    "mlp.gate.e_score_correction_bias",
	"ffn_gate_up_exps":    "mlp.experts.gate_up_proj",
	"ffn_down_stack":      "mlp.experts.down_proj",
	"ffn_gate_inp_shexp":  "mlp.shared_expert_gate",
	"ffn_gate_shexp":      "mlp.shared_expert.gate_proj",
	"ffn_up_shexp":        "mlp.shared_expert.up_proj",
	"ffn_down_shexp":      "mlp.shared_expert.down_proj",
	"post_attention_norm": "post_attention_layernorm",
	"post_ffw_norm":       "post_feedforward_layernorm",
}

// GGUFRole returns the role that GGUF files of the family give a tensor.
func (f *Family) GGUFRole(role string) string {
	if name, ok := f.ggufNames[role]; ok {
		return name
	}
	return role
}

// Permuted reports whether GGUF files of the family have the rows of rotary pairs of queries and keys side by side.
func (f *Family) Permuted() bool { return f.interleave }

// StoredAs reports whether a safetensors model of the family may become a GGUF file of an architecture, and whether that is
// Permuted.
func (f *Family) StoredAs(architecture string) (permuted, ok bool) {
	as, err := familyByGGUF(architecture)
	if err != nil || as != f && (len(f.gguf) > 0 || as != &Llama) { // families without a name of their own are stored as llama
		return false, false
	}
	return as.interleave, true
}

// Names reports whether safetensors files of the family have a name of their own for a role.
func (f *Family) Names(role string) bool { return f.names[role] != "" }

// HFName returns the safetensors name of a role; layer -1 means the ends of the network.
func (f *Family) HFName(role string, layer int) string {
	name, ok := f.names[role]
	if !ok {
		name = commonNames[role]
	}
	if layer < 0 {
		return name
	}
	prefix := "model.layers"
	if p, ok := f.names["layers"]; ok {
		prefix = p
	}
	return fmt.Sprintf("%s.%d.%s", prefix, layer, name)
}
