package synth

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/llmrun/llmrun/quant"
)

// tensor is a tensor of a model before its type is chosen.
type tensor struct {
	name  string
	shape []int // outermost dimension first
	role  role  // role of a matrix; the mix derives the type from it
	layer int   // -1 outside the layers
	fill  fillKind
}

// role classifies matrices as the quantizer does.
type role uint8

const (
	roleNone    role = iota // never quantized
	roleEmbed               // the embedding
	roleOutput              // the output head, or a tied embedding
	roleMatrix              // a matrix of the mix's main type
	roleQKV                 // fused query, key and value projection
	roleValue               // value projection
	roleDown                // down projection of the MLP
	roleMXFP4               // a matrix of experts that every mix has in MXFP4
	roleTable               // the embedding of the layers
	roleKept                // a matrix that stays as it was trained
	roleQuery               // query projection
	roleKey                 // key projection
	roleProject             // projection of attention's output
)

// fillKind selects the distribution of a tensor's elements.
type fillKind uint8

const (
	fillMatrix fillKind = iota // random, for products of variance 1
	fillGain                   // near 1
	fillBias                   // near 0
	fillRouter                 // a matrix with rows of different norms
	fillRopeFactors
	fillLongFactors
	fillDecay // near -1
)

// family describes how the tensors of an architecture differ from those of Llama.
type family struct {
	qkvBias  bool
	fused    bool   // attn_qkv instead of three projections
	fusedMLP bool   // ffn_up holds gate and up
	qkNorm   int    // norm of queries and keys: 0 (none), normHead or normFull
	postNorm bool   // norms after attention and MLP
	noNorm   bool   // no norms before attention and MLP
	parallel bool   // attention and MLP share the norm before them
	gptOSS   bool   // more biases, sinks, experts in MXFP4
	bias     bool   // encoders: matrices have biases
	gated    bool   // encoders: the MLP has a gate
	ungated  bool   // MLPs and experts have none
	oneNorm  bool   // layers have one block each, and one norm
	jointBA  bool   // steps and weights of delta nets are one matrix
	endNorm  string // name of the last norm, if it is not output_norm
	ffnNorm  string // name of the norm before the MLP, if it is not ffn_norm.weight
	pre      string
}

const (
	normHead = iota + 1
	normFull
)

// families holds the supported architectures.
var families = map[string]family{
	"llama":    {pre: "llama-bpe"},
	"smollm3":  {pre: "llama-bpe"},
	"qwen2":    {pre: "qwen2", qkvBias: true},
	"qwen3":    {pre: "qwen2", qkNorm: normHead},
	"qwen3moe": {pre: "qwen2", qkNorm: normHead},
	"qwen35":   {pre: "qwen35", qkNorm: normHead, ffnNorm: "post_attention_norm.weight"},
	"olmoe":    {pre: "olmo", qkNorm: normFull},
	"gemma3":   {pre: "gpt-2", qkNorm: normHead, postNorm: true},
	"phi3":     {pre: "gpt-2", fused: true, fusedMLP: true},
	"mistral3": {pre: "tekken"},
	"exaone4":  {pre: "exaone4", qkNorm: normHead, postNorm: true, noNorm: true},
	"olmo2":    {pre: "dbrx", qkNorm: normFull, postNorm: true, noNorm: true},
	"ernie4_5": {pre: "gpt-2"},
	"seed_oss": {pre: "seed-coder", qkvBias: true, ffnNorm: "post_attention_norm.weight"},
	"cohere2":  {pre: "command-r", parallel: true},
	"glm4":     {pre: "glm4", qkvBias: true, fusedMLP: true, postNorm: true},
	"gpt-oss":  {pre: "gpt-4o", qkvBias: true, gptOSS: true, ffnNorm: "post_attention_norm.weight"},

	"qwen35moe": {pre: "qwen35", qkNorm: normHead, ffnNorm: "post_attention_norm.weight"},
	"gemma4":    {pre: "gpt-2", qkNorm: normHead, postNorm: true},
	"lfm2moe":   {pre: "lfm2", qkNorm: normHead, endNorm: "token_embd_norm"},
	"deepseek2": {pre: "glm4"},

	"qwen3next":      {pre: "qwen2", qkNorm: normHead, ffnNorm: "post_attention_norm.weight", jointBA: true},
	"gemma3n":        {pre: "gpt-2", qkNorm: normHead, postNorm: true},
	"minicpm3":       {pre: "gpt-2"},
	"granitehybrid":  {pre: "dbrx"},
	"falcon-h1":      {pre: "falcon-h1", ffnNorm: "ffn_norm"}, // converters write this name
	"nemotron_h":     {pre: "pixtral", ungated: true, oneNorm: true},
	"nemotron_h_moe": {pre: "pixtral", ungated: true, oneNorm: true},
	"mamba2":         {pre: "gpt-neox", oneNorm: true},

	"hunyuan-dense": {pre: "hunyuan-dense", qkNorm: normHead},

	"bert":       {pre: "jina-v2-en", bias: true},
	"nomic-bert": {pre: "jina-v2-en", fused: true, gated: true},
}

// tensors returns all tensors in file order.
func (s Shape) tensors() []tensor {
	var out []tensor
	embed := roleEmbed
	if s.Tied {
		embed = roleOutput
	}
	if s.Rope.Factor != 0 || s.Rope.Turned != 0 {
		dim := cmp.Or(s.Layered.HeadDim, s.HeadDim)
		out = append(out, tensor{name: "rope_freqs.weight", shape: []int{dim / 2}, layer: -1, fill: fillRopeFactors})
	}
	if s.Rope.Long != 0 {
		for _, name := range []string{"rope_factors_long", "rope_factors_short"} {
			out = append(out, tensor{name: name + ".weight", shape: []int{s.Rope.Dim / 2}, layer: -1, fill: fillLongFactors})
		}
	}
	out = append(out, s.Layered.Streams.ends(&s)...)
	out = append(out, tensor{name: "token_embd.weight", shape: []int{s.Vocab, s.Dim}, role: embed, layer: -1})
	if width := s.Layered.PerLayer; width > 0 {
		out = append(out,
			tensor{name: "per_layer_token_embd.weight", shape: []int{s.Vocab, s.Layers * width}, role: roleTable, layer: -1},
			tensor{name: "per_layer_model_proj.weight", shape: []int{s.Layers * width, s.Dim}, role: roleKept, layer: -1},
			tensor{name: "per_layer_proj_norm.weight", shape: []int{width}, layer: -1, fill: fillGain})
	}
	if s.Encoder.on() {
		out = append(out, s.Encoder.ends(&s)...)
	}
	for l := range s.Layers {
		out = append(out, s.layer(l)...)
	}
	if s.Encoder.on() {
		return out
	}
	endNorm := cmp.Or(families[s.Arch].endNorm, "output_norm")
	out = append(out, tensor{name: endNorm + ".weight", shape: []int{s.Dim}, layer: -1, fill: fillGain})
	if !s.Tied {
		out = append(out, tensor{name: "output.weight", shape: []int{s.Vocab, s.Dim}, role: roleOutput, layer: -1})
	}
	return out
}

// layerTensors collects the tensors of a layer.
type layerTensors struct {
	layer int
	list  []tensor
}

func (l *layerTensors) add(name string, role role, fill fillKind, shape ...int) {
	l.list = append(l.list, tensor{fmt.Sprintf("blk.%d.%s", l.layer, name), shape, role, l.layer, fill})
}

// layer returns the tensors of layer i.
func (s Shape) layer(i int) []tensor {
	f := families[s.Arch]
	l := &layerTensors{layer: i}
	if s.Encoder.on() {
		s.encoderLayer(l, f)
		return l.list
	}
	if !f.noNorm {
		l.add("attn_norm.weight", roleNone, fillGain, s.Dim)
	}
	s.mixer(l, f)
	if f.postNorm {
		l.add("post_attention_norm.weight", roleNone, fillGain, s.Dim)
	}
	if !f.noNorm && !f.parallel && !f.oneNorm {
		l.add(cmp.Or(f.ffnNorm, "ffn_norm.weight"), roleNone, fillGain, s.Dim)
	}
	if s.States.hasMLP(i) {
		s.mlp(l, f)
	}
	if f.postNorm {
		l.add("post_ffw_norm.weight", roleNone, fillGain, s.Dim)
	}
	if s.Layered.Interval > 0 {
		s.layered(l)
	}
	return l.list
}

// mixer adds the tensors of what mixes tokens in a layer, if it does.
func (s Shape) mixer(l *layerTensors, f family) {
	i := l.layer
	if s.States.inLayer(i) {
		s.states(l)
	}
	switch {
	case s.Deltas.inLayer(i):
		s.deltas(l, f)
	case s.Convs.inLayer(i):
		s.convolution(l)
	case s.Latent.Rank > 0:
		s.latent(l)
	case !s.States.on(), s.States.attends(i):
		s.attention(l, f)
	}
}

// mlp adds the tensors of a layer's MLP, of its experts, or of both.
func (s Shape) mlp(l *layerTensors, f family) {
	inner := s.inner(l.layer)
	if s.Experts > 0 && l.layer >= s.DenseLayers {
		s.experts(l, f)
		if s.Layered.Interval == 0 {
			return // no MLP beside them
		}
	}
	switch {
	case f.fusedMLP:
		l.add("ffn_up.weight", roleMatrix, fillMatrix, 2*inner, s.Dim)
	case !f.ungated:
		l.add("ffn_gate.weight", roleMatrix, fillMatrix, inner, s.Dim)
		fallthrough
	default:
		l.add("ffn_up.weight", roleMatrix, fillMatrix, inner, s.Dim)
	}
	l.add("ffn_down.weight", roleDown, fillMatrix, s.Dim, inner)
}

// experts adds the tensors of routed experts.
func (s Shape) experts(l *layerTensors, f family) {
	matrix, down := roleMatrix, roleDown
	if f.gptOSS {
		matrix, down = roleMXFP4, roleMXFP4
		l.add("ffn_gate_inp.bias", roleNone, fillBias, s.Experts)
		l.add("ffn_gate_exps.bias", roleNone, fillBias, s.Experts, s.FFN)
		l.add("ffn_down_exps.bias", roleNone, fillBias, s.Experts, s.Dim)
		l.add("ffn_up_exps.bias", roleNone, fillBias, s.Experts, s.FFN)
	}
	l.add("ffn_gate_inp.weight", roleNone, fillRouter, s.Experts, s.Dim)
	switch {
	case s.Layered.Interval > 0:
		l.add("ffn_gate_up_exps.weight", matrix, fillMatrix, s.Experts, 2*s.FFN, s.Dim)
	case !f.ungated:
		l.add("ffn_gate_exps.weight", matrix, fillMatrix, s.Experts, s.FFN, s.Dim)
		fallthrough
	default:
		l.add("ffn_up_exps.weight", matrix, fillMatrix, s.Experts, s.FFN, s.Dim)
	}
	l.add("ffn_down_exps.weight", down, fillMatrix, s.Experts, s.Dim, s.FFN)
	if s.Routing.Sigmoid {
		l.add("exp_probs_b.bias", roleNone, fillBias, s.Experts)
	}
	if s.SharedFFN > 0 {
		if !f.ungated {
			l.add("ffn_gate_shexp.weight", roleMatrix, fillMatrix, s.SharedFFN, s.Dim)
		}
		l.add("ffn_up_shexp.weight", roleMatrix, fillMatrix, s.SharedFFN, s.Dim)
		l.add("ffn_down_shexp.weight", roleDown, fillMatrix, s.Dim, s.SharedFFN)
	}
	if s.SharedFFN > 0 && s.Deltas.Interval > 0 {
		l.add("ffn_gate_inp_shexp.weight", roleNone, fillBias, s.Dim)
	}
}

// deltas adds the tensors of a gated delta net.
func (s Shape) deltas(l *layerTensors, f family) {
	d := &s.Deltas
	inner := d.Heads * d.HeadDim
	l.add("attn_qkv.weight", roleQKV, fillMatrix, d.channels(), s.Dim)
	l.add("attn_gate.weight", roleMatrix, fillMatrix, inner, s.Dim)
	l.add("ssm_conv1d.weight", roleNone, fillGain, d.channels(), d.Taps)
	l.add("ssm_dt.bias", roleNone, fillBias, d.Heads)
	l.add("ssm_a", roleNone, fillDecay, d.Heads)
	if f.jointBA {
		l.add("ssm_ba.weight", roleMatrix, fillMatrix, 2*d.Heads, s.Dim)
	} else {
		l.add("ssm_beta.weight", roleMatrix, fillMatrix, d.Heads, s.Dim)
		l.add("ssm_alpha.weight", roleMatrix, fillMatrix, d.Heads, s.Dim)
	}
	l.add("ssm_norm.weight", roleNone, fillGain, d.HeadDim)
	l.add("ssm_out.weight", roleMatrix, fillMatrix, s.Dim, inner)
}

// attention adds the tensors of the attention block.
func (s Shape) attention(l *layerTensors, f family) {
	headDim := s.headDim(l.layer)
	q, kv := s.Heads*headDim, s.kvHeads(l.layer)*headDim
	if f.fused {
		l.add("attn_qkv.weight", roleQKV, fillMatrix, q+2*kv, s.Dim)
	} else {
		rows := q
		if s.Deltas.Interval > 0 {
			rows *= 2 // queries and gates
		}
		l.add("attn_q.weight", roleQuery, fillMatrix, rows, s.Dim)
		l.add("attn_k.weight", roleKey, fillMatrix, kv, s.Dim)
		if s.Layered.KVHeads == 0 || !s.Layered.full(l.layer) {
			l.add("attn_v.weight", roleValue, fillMatrix, kv, s.Dim)
		}
	}
	if f.qkvBias {
		l.add("attn_q.bias", roleNone, fillBias, q)
		l.add("attn_k.bias", roleNone, fillBias, kv)
		l.add("attn_v.bias", roleNone, fillBias, kv)
	}
	switch f.qkNorm {
	case normHead:
		l.add("attn_q_norm.weight", roleNone, fillGain, headDim)
		l.add("attn_k_norm.weight", roleNone, fillGain, headDim)
	case normFull:
		l.add("attn_q_norm.weight", roleNone, fillGain, q)
		l.add("attn_k_norm.weight", roleNone, fillGain, kv)
	}
	l.add("attn_output.weight", roleProject, fillMatrix, s.Dim, q)
	if f.gptOSS {
		l.add("attn_output.bias", roleNone, fillBias, s.Dim)
		l.add("attn_sinks.weight", roleNone, fillBias, s.Heads)
	}
}

// convolution adds the tensors of a short convolution.
func (s Shape) convolution(l *layerTensors) {
	l.add("shortconv.conv.weight", roleNone, fillGain, s.Dim, s.Convs.Taps)
	l.add("shortconv.in_proj.weight", roleMatrix, fillMatrix, 3*s.Dim, s.Dim)
	l.add("shortconv.out_proj.weight", roleMatrix, fillMatrix, s.Dim, s.Dim)
}

// layered adds what only the layers of Gemma 3n and 4 have.
func (s Shape) layered(l *layerTensors) {
	if s.Layered.Streams.Count > 0 {
		s.Layered.Streams.layer(&s, l)
	} else {
		l.add("layer_output_scale.weight", roleNone, fillGain, 1)
	}
	if width := s.Layered.PerLayer; width > 0 {
		l.add("inp_gate.weight", roleMatrix, fillMatrix, width, s.Dim)
		l.add("proj.weight", roleMatrix, fillMatrix, s.Dim, width)
		l.add("post_norm.weight", roleNone, fillGain, s.Dim)
	}
	if s.Experts > 0 {
		l.add("ffn_gate_inp.scale", roleNone, fillGain, s.Dim)
		l.add("ffn_down_exps.scale", roleNone, fillGain, s.Experts)
		for _, name := range []string{"post_ffw_norm_1", "post_ffw_norm_2", "pre_ffw_norm_2"} {
			l.add(name+".weight", roleNone, fillGain, s.Dim)
		}
	}
}

// elems returns the number of elements.
func (t *tensor) elems() int64 {
	n := int64(1)
	for _, d := range t.shape {
		n *= int64(d)
	}
	return n
}

// cols returns the length of a row.
func (t *tensor) cols() int { return t.shape[len(t.shape)-1] }

// Matrix is a weight matrix of a model.
type Matrix struct {
	Name       string // name without the layer, such as "attn_q"
	Type       quant.Type
	Rows, Cols int
	Experts    int // number of matrices; 0 for a matrix that is not an expert
}

// Matrices returns the matrices of all layers and the output head in file order.
func (s Shape) Matrices(mixName string) ([]Matrix, error) {
	m, ok := findMix(mixName)
	if !ok {
		return nil, fmt.Errorf("%w: there is no mix %q", ErrOptions, mixName)
	}
	var list []Matrix
	for _, t := range s.tensors() {
		if len(t.shape) < 2 || t.role == roleEmbed || t.role == roleTable || t.role == roleNone && t.fill != fillRouter {
			continue
		}
		parts := strings.Split(t.name, ".")
		matrix := Matrix{Name: parts[len(parts)-2], Type: m.typeOf(&t, s.Layers), Cols: t.shape[len(t.shape)-1], Rows: t.shape[len(t.shape)-2]}
		switch {
		case len(t.shape) == 3 && strings.HasSuffix(matrix.Name, "_exps"):
			matrix.Experts = t.shape[0]
		case len(t.shape) == 3: // all of them are used
			matrix.Rows *= t.shape[0]
		}
		if t.role == roleOutput {
			matrix.Name = "output"
		}
		list = append(list, matrix)
	}
	return list, nil
}
