package synth

import "fmt"

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
	roleNone   role = iota // never quantized
	roleEmbed              // the embedding
	roleOutput             // the output head, or a tied embedding
	roleMatrix             // a matrix of the mix's main type
	roleQKV                // fused query, key and value projection
	roleValue              // value projection
	roleDown               // down projection of the MLP
)

// fillKind selects the distribution of a tensor's elements.
type fillKind uint8

const (
	fillMatrix fillKind = iota // random, for products of variance 1
	fillGain                   // near 1
	fillBias                   // near 0
	fillRouter                 // a matrix with rows of different norms
	fillRopeFactors
)

// family describes how the tensors of an architecture differ from those of Llama.
type family struct {
	qkvBias  bool
	fused    bool // attn_qkv instead of three projections; ffn_up holds gate and up
	qkNorm   int  // norm of queries and keys: 0 (none), normHead or normFull
	postNorm bool // additional norms after attention and MLP
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
	"olmoe":    {pre: "olmo", qkNorm: normFull},
	"gemma3":   {pre: "gpt-2", qkNorm: normHead, postNorm: true},
	"phi3":     {pre: "gpt-2", fused: true},
}

// tensors returns all tensors in file order.
func (s Shape) tensors() []tensor {
	var out []tensor
	embed := roleEmbed
	if s.Tied {
		embed = roleOutput
	}
	if s.Rope.Factor != 0 {
		out = append(out, tensor{name: "rope_freqs.weight", shape: []int{s.HeadDim / 2}, layer: -1, fill: fillRopeFactors})
	}
	out = append(out, tensor{name: "token_embd.weight", shape: []int{s.Vocab, s.Dim}, role: embed, layer: -1})
	for l := range s.Layers {
		out = append(out, s.layer(l)...)
	}
	out = append(out, tensor{name: "output_norm.weight", shape: []int{s.Dim}, layer: -1, fill: fillGain})
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
	l.add("attn_norm.weight", roleNone, fillGain, s.Dim)
	s.attention(l, f)
	if f.postNorm {
		l.add("post_attention_norm.weight", roleNone, fillGain, s.Dim)
	}
	l.add("ffn_norm.weight", roleNone, fillGain, s.Dim)
	switch {
	case s.Experts > 0:
		l.add("ffn_gate_inp.weight", roleNone, fillRouter, s.Experts, s.Dim)
		l.add("ffn_gate_exps.weight", roleMatrix, fillMatrix, s.Experts, s.FFN, s.Dim)
		l.add("ffn_down_exps.weight", roleDown, fillMatrix, s.Experts, s.Dim, s.FFN)
		l.add("ffn_up_exps.weight", roleMatrix, fillMatrix, s.Experts, s.FFN, s.Dim)
	case f.fused:
		l.add("ffn_up.weight", roleMatrix, fillMatrix, 2*s.FFN, s.Dim)
		l.add("ffn_down.weight", roleDown, fillMatrix, s.Dim, s.FFN)
	default:
		l.add("ffn_gate.weight", roleMatrix, fillMatrix, s.FFN, s.Dim)
		l.add("ffn_up.weight", roleMatrix, fillMatrix, s.FFN, s.Dim)
		l.add("ffn_down.weight", roleDown, fillMatrix, s.Dim, s.FFN)
	}
	if f.postNorm {
		l.add("post_ffw_norm.weight", roleNone, fillGain, s.Dim)
	}
	return l.list
}

// attention adds the tensors of the attention block.
func (s Shape) attention(l *layerTensors, f family) {
	q, kv := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	if f.fused {
		l.add("attn_qkv.weight", roleQKV, fillMatrix, q+2*kv, s.Dim)
	} else {
		l.add("attn_q.weight", roleMatrix, fillMatrix, q, s.Dim)
		l.add("attn_k.weight", roleMatrix, fillMatrix, kv, s.Dim)
		l.add("attn_v.weight", roleValue, fillMatrix, kv, s.Dim)
	}
	if f.qkvBias {
		l.add("attn_q.bias", roleNone, fillBias, q)
		l.add("attn_k.bias", roleNone, fillBias, kv)
		l.add("attn_v.bias", roleNone, fillBias, kv)
	}
	switch f.qkNorm {
	case normHead:
		l.add("attn_q_norm.weight", roleNone, fillGain, s.HeadDim)
		l.add("attn_k_norm.weight", roleNone, fillGain, s.HeadDim)
	case normFull:
		l.add("attn_q_norm.weight", roleNone, fillGain, q)
		l.add("attn_k_norm.weight", roleNone, fillGain, kv)
	}
	l.add("attn_output.weight", roleMatrix, fillMatrix, s.Dim, q)
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
