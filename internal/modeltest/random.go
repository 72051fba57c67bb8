package modeltest

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// RandomModel is a checkpoint of random weights of a random shape, in directory m of a file system in memory.
type RandomModel struct {
	Family string
	Config []byte
	FS     vfs.FS
}

// RandomFamilies are the families of NewRandomModel.
var RandomFamilies = []string{
	"llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2", "gemma3_text",
	"phi", "phi3", "internlm2", "gpt_neox", "olmo2", "olmoe", "granite", "smollm3", "lfm2",
}

// NewRandomModel writes a model whose sizes are odd more often than those of models that people use: matrices narrower
// than a register, one head or forty, vocabularies of one token, windows of one position. context, if not 0, is the
// model's context.
func NewRandomModel(t testing.TB, rng *rand.Rand, context int) *RandomModel {
	t.Helper()
	m := &RandomModel{Family: oneOf(rng, RandomFamilies...), FS: vfs.NewMem()}
	fields := randomShape(rng, m.Family)
	if context > 0 {
		fields["max_position_embeddings"] = context
	}
	m.Config = ConfigOf(t, m.Family, fields)
	require.NoError(t, m.FS.MkdirAll("m"))
	tensors := randomTensors(t, rng, m.Family, m.Config)
	require.NoError(t, safetensors.Write(m.FS, "m/model.safetensors", tensors), string(m.Config))
	WriteFile(t, m.FS, "m/config.json", m.Config)
	return m
}

func oneOf[T any](rng *rand.Rand, choices ...T) T { return choices[rng.IntN(len(choices))] }

// randomShape returns the fields of config.json that a random model does not leave to ConfigOf.
func randomShape(rng *rand.Rand, family string) Fields {
	heads, headDim := oneOf(rng, 1, 2, 3, 4, 6, 8, 40), oneOf(rng, 2, 4, 6, 8, 10, 16, 24, 32, 40, 48, 64, 80, 96, 128, 256)
	if heads*headDim > 1280 {
		headDim = 24
	}
	kvHeads := oneOf(rng, 1, 2, 3, 4, 8)
	if heads%kvHeads != 0 {
		kvHeads = 1
	}
	dim := oneOf(rng, 8, 20, 32, 33, 64, 96, 100, 128, 160)
	switch family { // these derive the width of a head
	case "gpt_neox":
		dim, kvHeads = heads*headDim, heads
	case "phi":
		dim = heads * headDim
		if rng.IntN(2) == 0 {
			kvHeads = heads
		}
	case "internlm2":
		dim = heads * headDim
	}
	f := Fields{
		"num_hidden_layers": 1 + rng.IntN(4), "hidden_size": dim, "num_attention_heads": heads, "num_key_value_heads": kvHeads, "head_dim": headDim,
		"intermediate_size": oneOf(rng, 1, 7, 12, 32, 64, 96, 129, 160, 256), "vocab_size": oneOf(rng, 1, 2, 3, 10, 31, 32, 33, 100, 129),
		"max_position_embeddings": oneOf(rng, 32, 64, 65, 127, 128, 200), "rms_norm_eps": oneOf(rng, 1e-6, 1e-5),
		"rope_theta": oneOf(rng, 1e4, 5e5, 1e6), "tie_word_embeddings": rng.IntN(2) == 0,
	}
	switch {
	case rng.IntN(2) == 0:
		f["sliding_window"], f["use_sliding_window"], f["max_window_layers"] = oneOf(rng, 1, 2, 5, 16, 63, 64, 65, 100), true, rng.IntN(3)
	case family == "gemma2" || family == "gemma3_text":
		f["sliding_window"] = 7
	}
	switch rng.IntN(5) {
	case 0:
		f["rope_scaling"] = Fields{"type": "linear", "factor": 2.5}
	case 1:
		f["rope_scaling"] = Fields{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
	case 2:
		f["rope_scaling"] = Fields{"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 32, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
	}
	familyShape(rng, family, f)
	return f
}

// familyShape adds the fields that one family has.
func familyShape(rng *rand.Rand, family string, f Fields) {
	experts := oneOf(rng, 1, 2, 3, 8, 17)
	switch family {
	case "mixtral":
		f["num_local_experts"], f["num_experts_per_tok"] = experts, 1+rng.IntN(experts)
	case "qwen2_moe", "qwen3_moe", "olmoe":
		f["num_experts"], f["num_experts_per_tok"], f["norm_topk_prob"] = experts, 1+rng.IntN(experts), rng.IntN(2) == 0
		f["moe_intermediate_size"] = oneOf(rng, 1, 12, 32, 64, 96)
		if rng.IntN(3) == 0 {
			f["mlp_only_layers"] = []int{0}
		}
		if family == "olmoe" && rng.IntN(2) == 0 {
			f["clip_qkv"] = 0.5
		}
	case "phi", "gpt_neox":
		part := oneOf(rng, 0.25, 0.5, 0.75, 1.0)
		if int(part*float64(f["head_dim"].(int)))&^1 == 0 { // no pair is left to rotate
			part = 1
		}
		f["partial_rotary_factor"], f["qk_layernorm"] = part, family == "phi" && rng.IntN(2) == 0
		f["use_parallel_residual"] = rng.IntN(2) == 0
	case "gemma2":
		f["attn_logit_softcapping"], f["final_logit_softcapping"], f["query_pre_attn_scalar"] = 5.0, 3.0, 7
	case "granite":
		f["attention_multiplier"], f["embedding_multiplier"], f["residual_multiplier"], f["logits_scaling"] = 0.3, 1.5, 0.22, 8.0
	case "lfm2":
		f["conv_L_cache"] = oneOf(rng, 1, 2, 3, 4, 7)
		types := make([]string, f["num_hidden_layers"].(int))
		for i := range types {
			types[i] = oneOf(rng, "conv", "full_attention")
		}
		f["layer_types"] = types
	}
}

// checkpoint collects the tensors of a random model.
type checkpoint struct {
	rng     *rand.Rand
	family  *arch.Family
	spec    *arch.Spec
	typ     quant.Type // of matrices
	tensors []safetensors.TensorData
}

// randomTensors returns all tensors that a config.json asks for.
func randomTensors(t testing.TB, rng *rand.Rand, name string, config []byte) []safetensors.TensorData {
	t.Helper()
	hyper, family, err := arch.HyperFromHF("m/config.json", config)
	require.NoError(t, err, string(config))
	spec, err := family.Spec(hyper)
	require.NoError(t, err, string(config))
	c := &checkpoint{rng: rng, family: family, spec: spec, typ: oneOf(rng, quant.F32, quant.F32, quant.BF16, quant.F16)}
	biases := rng.IntN(2) == 0
	c.matrix("token_embd", -1, false, spec.Vocab, spec.Dim)
	c.norm("output_norm", -1, spec.Dim)
	if !spec.Tied {
		c.matrix("output", -1, name == "phi", spec.Vocab, spec.Dim)
	}
	for l := range spec.Layers {
		c.mixer(name, l, biases)
		if spec.PostNorm {
			c.norm("post_attention_norm", l, spec.Dim)
			c.norm("post_ffw_norm", l, spec.Dim)
		}
		if spec.PreNorm && spec.Parallel != arch.ParallelSharedNorm {
			c.norm("ffn_norm", l, spec.Dim)
		}
		if spec.Layers[l].Experts {
			c.experts(name, l, hyper.ExpertFFN)
		} else {
			c.mlp(name, l, hyper.FFN, biases)
		}
	}
	return c.tensors
}

// mixer adds attention, or what a layer has in its place.
func (c *checkpoint) mixer(name string, l int, biases bool) {
	s, layer := c.spec, &c.spec.Layers[l]
	if s.PreNorm {
		c.norm("attn_norm", l, s.Dim)
	}
	if layer.Mixer == arch.ShortConv {
		c.matrix("shortconv.in_proj", l, biases, 3*s.Dim, s.Dim)
		conv := c.family.HFName("shortconv.conv", l)
		c.add(conv+".weight", c.typ, 0.7, 0, s.Dim, 1, s.ConvTaps)
		if biases {
			c.add(conv+".bias", quant.F32, 0.7, 0, s.Dim)
		}
		c.matrix("shortconv.out_proj", l, biases, s.Dim, s.Dim)
		return
	}
	q, kv := s.Heads*s.HeadDim, layer.KVHeads*s.HeadDim
	switch name {
	case "phi3", "internlm2", "gpt_neox":
		c.matrix("attn_qkv", l, biases, q+2*kv, s.Dim)
	default:
		c.matrix("attn_q", l, biases, q, s.Dim)
		c.matrix("attn_k", l, biases, kv, s.Dim)
		c.matrix("attn_v", l, biases, kv, s.Dim)
	}
	switch s.QKNorm {
	case arch.QKNormHead:
		c.norm("attn_q_norm", l, s.HeadDim)
		c.norm("attn_k_norm", l, s.HeadDim)
	case arch.QKNormAllHeads:
		c.norm("attn_q_norm", l, q)
		c.norm("attn_k_norm", l, kv)
	}
	c.matrix("attn_output", l, biases, s.Dim, q)
}

// sharedFFN is the width of the expert that all tokens use.
const sharedFFN = 48

func (c *checkpoint) experts(name string, l, ffn int) {
	s := c.spec
	c.matrix("ffn_gate_inp", l, false, s.Experts, s.Dim)
	for e := range s.Experts {
		for _, m := range []struct {
			role       string
			rows, cols int
		}{{"ffn_gate_exps", ffn, s.Dim}, {"ffn_up_exps", ffn, s.Dim}, {"ffn_down_exps", s.Dim, ffn}} {
			c.add(fmt.Sprintf(c.family.HFName(m.role, l), e)+".weight", c.typ, float32(1/math.Sqrt(float64(m.cols))), 0, m.rows, m.cols)
		}
	}
	if name == "qwen2_moe" {
		c.matrix("ffn_gate_shexp", l, false, sharedFFN, s.Dim)
		c.matrix("ffn_up_shexp", l, false, sharedFFN, s.Dim)
		c.matrix("ffn_down_shexp", l, false, s.Dim, sharedFFN)
		c.matrix("ffn_gate_inp_shexp", l, false, 1, s.Dim)
	}
}

func (c *checkpoint) mlp(name string, l, ffn int, biases bool) {
	switch {
	case name == "phi3": // gate and up in one
		c.matrix("ffn_up", l, false, 2*ffn, c.spec.Dim)
	case c.spec.Gated:
		c.matrix("ffn_gate", l, biases, ffn, c.spec.Dim)
		c.matrix("ffn_up", l, biases, ffn, c.spec.Dim)
	default:
		c.matrix("ffn_up", l, biases, ffn, c.spec.Dim)
	}
	c.matrix("ffn_down", l, biases, c.spec.Dim, ffn)
}

// matrix adds a matrix, and perhaps its bias.
func (c *checkpoint) matrix(role string, l int, bias bool, rows, cols int) {
	name := c.family.HFName(role, l)
	c.add(name+".weight", c.typ, float32(1/math.Sqrt(float64(cols))), 0, rows, cols)
	if bias {
		c.add(name+".bias", quant.F32, 0.3, 0, rows)
	}
}

// norm adds the weights of a norm, around the value that leaves numbers as they are.
func (c *checkpoint) norm(role string, l, n int) {
	name := c.family.HFName(role, l)
	c.add(name+".weight", quant.F32, 0.2, 1-c.spec.Norm.Offset, n)
	if c.spec.Norm.Layer {
		c.add(name+".bias", quant.F32, 0.2, 0, n)
	}
}

// add adds a tensor of normally distributed numbers.
func (c *checkpoint) add(name string, typ quant.Type, deviation, mean float32, shape ...int) {
	var data []byte
	for range modelfile.Elems(shape) {
		v := float32(c.rng.NormFloat64())*deviation + mean
		switch typ {
		case quant.BF16:
			b := quant.F32ToBF16(v)
			data = append(data, byte(b), byte(b>>8))
		case quant.F16:
			b := quant.F32ToF16(v)
			data = append(data, byte(b), byte(b>>8))
		default:
			data = modelfile.AppendFloats(data, []float32{v})
		}
	}
	c.tensors = append(c.tensors, safetensors.TensorData{Name: name, Type: typ, Shape: shape, Data: data})
}

// String names the model in a test's log.
func (m *RandomModel) String() string {
	var f Fields
	_ = json.Unmarshal(m.Config, &f)
	return fmt.Sprintf("%s %v", m.Family, f)
}
