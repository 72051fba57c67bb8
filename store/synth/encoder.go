package synth

import "strconv"

// Encoder holds what encoders of texts have beside decoders. The zero value is that of decoders.
type Encoder struct {
	Pooling   int // value of pooling_type: 1 = mean, 2 = of the first token; 0 = no encoder
	Types     int // types of tokens
	Positions bool
}

// on reports whether the shape is that of an encoder.
func (e *Encoder) on() bool { return e.Pooling != 0 }

// ends adds the tensors before the first layer.
func (e *Encoder) ends(s *Shape) []tensor {
	var out []tensor
	if e.Positions {
		out = append(out, tensor{name: "position_embd.weight", shape: []int{s.Context, s.Dim}, layer: -1, fill: fillBias})
	}
	return append(out,
		tensor{name: "token_types.weight", shape: []int{e.Types, s.Dim}, layer: -1, fill: fillBias},
		tensor{name: "token_embd_norm.weight", shape: []int{s.Dim}, layer: -1, fill: fillGain},
		tensor{name: "token_embd_norm.bias", shape: []int{s.Dim}, layer: -1, fill: fillBias})
}

// encoderLayer adds the tensors of a layer.
func (s *Shape) encoderLayer(l *layerTensors, f family) {
	linear := func(name string, role role, rows, cols int) {
		l.add(name+".weight", role, fillMatrix, rows, cols)
		if f.bias {
			l.add(name+".bias", roleNone, fillBias, rows)
		}
	}
	norm := func(name string) {
		l.add(name+".weight", roleNone, fillGain, s.Dim)
		l.add(name+".bias", roleNone, fillBias, s.Dim)
	}
	if f.fused {
		linear("attn_qkv", roleQKV, 3*s.Dim, s.Dim)
	} else {
		linear("attn_q", roleQuery, s.Dim, s.Dim)
		linear("attn_k", roleKey, s.Dim, s.Dim)
		linear("attn_v", roleValue, s.Dim, s.Dim)
	}
	linear("attn_output", roleProject, s.Dim, s.Dim)
	norm("attn_output_norm")
	if f.gated {
		linear("ffn_gate", roleMatrix, s.FFN, s.Dim)
	}
	linear("ffn_up", roleMatrix, s.FFN, s.Dim)
	linear("ffn_down", roleDown, s.Dim, s.FFN)
	norm("layer_output_norm")
}

// keys adds the keys of an encoder.
func (e *Encoder) keys(s *Shape, k *keys) {
	k.putInt("feed_forward_length", s.FFN)
	k.putFloat("attention.layer_norm_epsilon", s.NormEps)
	k.put(k.arch+".attention.causal", false)
	k.putInt("pooling_type", e.Pooling)
	k.put("tokenizer.ggml.token_type_count", uint32(e.Types))
	if s.Rope.Base != 0 {
		k.putFloat("rope.freq_base", s.Rope.Base)
	}
}

// Special tokens of WordPiece vocabularies, from id 0 on.
var wordPieceSpecials = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}

// wordPiece adds the keys of a WordPiece tokenizer: special tokens, printable characters at the beginning and inside of words,
// and words w0, w1, w2, ….
func (s *Shape) wordPiece(k *keys) {
	tokens := append(make([]string, 0, s.Vocab), wordPieceSpecials...)
	for c := '!'; c <= '~'; c++ {
		tokens = append(tokens, "▁"+string(c), string(c))
	}
	for i := 0; len(tokens) < s.Vocab; i++ {
		tokens = append(tokens, "▁w"+strconv.Itoa(i))
	}
	types := make([]int32, len(tokens))
	for i := range types {
		types[i] = tokenNormal
		if i < len(wordPieceSpecials) {
			types[i] = tokenControl
		}
	}
	k.put("tokenizer.ggml.model", "bert")
	k.put("tokenizer.ggml.pre", families[s.Arch].pre)
	k.put("tokenizer.ggml.tokens", tokens)
	k.put("tokenizer.ggml.token_type", types)
	for i, name := range []string{"padding", "unknown", "cls", "seperator", "mask"} { // as converters spell it
		k.put("tokenizer.ggml."+name+"_token_id", uint32(i))
	}
	k.put("tokenizer.ggml.bos_token_id", uint32(2))
	k.put("tokenizer.ggml.eos_token_id", uint32(3))
}
