package synth

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
)

// The tensors of a layer in files of published models, by architecture: names without
// "blk.N." and, except for biases, without ".weight".
var published = map[string]string{
	"llama":    "attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_gate ffn_up ffn_down",
	"smollm3":  "attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_gate ffn_up ffn_down",
	"qwen2":    "attn_norm attn_q attn_k attn_v attn_q.bias attn_k.bias attn_v.bias attn_output ffn_norm ffn_gate ffn_up ffn_down",
	"qwen3":    "attn_norm attn_q attn_k attn_v attn_q_norm attn_k_norm attn_output ffn_norm ffn_gate ffn_up ffn_down",
	"qwen3moe": "attn_norm attn_q attn_k attn_v attn_q_norm attn_k_norm attn_output ffn_norm ffn_gate_inp ffn_gate_exps ffn_down_exps ffn_up_exps",
	"qwen35": "attn_norm attn_qkv attn_gate ssm_conv1d ssm_dt.bias ssm_a ssm_beta ssm_alpha ssm_norm ssm_out post_attention_norm " +
		"ffn_gate ffn_up ffn_down",
	"qwen35 attention": "attn_norm attn_q attn_k attn_v attn_q_norm attn_k_norm attn_output post_attention_norm ffn_gate ffn_up ffn_down",
	"olmoe":            "attn_norm attn_q attn_k attn_v attn_q_norm attn_k_norm attn_output ffn_norm ffn_gate_inp ffn_gate_exps ffn_down_exps ffn_up_exps",
	"gemma3":           "attn_norm attn_q attn_k attn_v attn_q_norm attn_k_norm attn_output post_attention_norm ffn_norm ffn_gate ffn_up ffn_down post_ffw_norm",
	"phi3":             "attn_norm attn_qkv attn_output ffn_norm ffn_up ffn_down",
	"mistral3":         "attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_gate ffn_up ffn_down",
	"ernie4_5":         "attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_gate ffn_up ffn_down",
	"exaone4":          "attn_q attn_k attn_v attn_q_norm attn_k_norm attn_output post_attention_norm ffn_gate ffn_up ffn_down post_ffw_norm",
	"olmo2":            "attn_q attn_k attn_v attn_q_norm attn_k_norm attn_output post_attention_norm ffn_gate ffn_up ffn_down post_ffw_norm",
	"seed_oss":         "attn_norm attn_q attn_k attn_v attn_q.bias attn_k.bias attn_v.bias attn_output post_attention_norm ffn_gate ffn_up ffn_down",
	"cohere2":          "attn_norm attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down",
	"glm4":             "attn_norm attn_q attn_k attn_v attn_q.bias attn_k.bias attn_v.bias attn_output post_attention_norm ffn_norm ffn_up ffn_down post_ffw_norm",
	"gpt-oss": "attn_norm attn_q attn_k attn_v attn_q.bias attn_k.bias attn_v.bias attn_sinks attn_output attn_output.bias post_attention_norm " +
		"ffn_gate_inp ffn_gate_inp.bias ffn_gate_exps ffn_gate_exps.bias ffn_down_exps ffn_down_exps.bias ffn_up_exps ffn_up_exps.bias",
	"qwen35moe":           "attn_norm attn_qkv attn_gate ssm_conv1d ssm_dt.bias ssm_a ssm_beta ssm_alpha ssm_norm ssm_out post_attention_norm " + qwenExperts,
	"qwen35moe attention": "attn_norm attn_q attn_k attn_v attn_q_norm attn_k_norm attn_output post_attention_norm " + qwenExperts,
	"gemma4": "attn_norm attn_q attn_k attn_v attn_q_norm attn_k_norm attn_output post_attention_norm ffn_norm ffn_gate ffn_up ffn_down " +
		"post_ffw_norm layer_output_scale inp_gate proj post_norm",
	"gemma4 experts": "attn_norm attn_q attn_k attn_v attn_q_norm attn_k_norm attn_output post_attention_norm ffn_norm ffn_gate ffn_up ffn_down " +
		"post_ffw_norm layer_output_scale " + gemmaExperts,
	"gemma4 experts attention": "attn_norm attn_q attn_k attn_q_norm attn_k_norm attn_output post_attention_norm ffn_norm ffn_gate ffn_up ffn_down " +
		"post_ffw_norm layer_output_scale " + gemmaExperts,
	"lfm2moe":           "attn_norm shortconv.conv shortconv.in_proj shortconv.out_proj ffn_norm " + routedExperts,
	"lfm2moe attention": "attn_norm attn_q attn_k attn_v attn_q_norm attn_k_norm attn_output ffn_norm " + routedExperts,
	"lfm2moe dense":     "attn_norm shortconv.conv shortconv.in_proj shortconv.out_proj ffn_norm ffn_gate ffn_up ffn_down",
	"deepseek2":         latentNames + " " + routedExperts + " ffn_gate_shexp ffn_up_shexp ffn_down_shexp",
	"deepseek2 dense":   latentNames + " ffn_gate ffn_up ffn_down",
	"bert": "attn_q attn_k attn_v attn_q.bias attn_k.bias attn_v.bias attn_output attn_output.bias attn_output_norm attn_output_norm.bias " +
		"ffn_up ffn_up.bias ffn_down ffn_down.bias layer_output_norm layer_output_norm.bias",
	"nomic-bert":          "attn_qkv attn_output attn_output_norm attn_output_norm.bias ffn_gate ffn_up ffn_down layer_output_norm layer_output_norm.bias",
	"qwen3next":           "attn_norm attn_qkv attn_gate ssm_conv1d ssm_dt.bias ssm_a ssm_ba ssm_norm ssm_out post_attention_norm " + qwenExperts,
	"qwen3next attention": "attn_norm attn_q attn_k attn_v attn_q_norm attn_k_norm attn_output post_attention_norm " + qwenExperts,
	"gemma3n": "attn_norm attn_q attn_k attn_v attn_q_norm attn_k_norm attn_output post_attention_norm ffn_norm ffn_gate ffn_up ffn_down " +
		"post_ffw_norm inp_gate proj post_norm altup_correct_scale altup_correct_coef altup_predict_coef altup_router altup_router_norm " +
		"laurel_l laurel_r laurel_post_norm",
	"deepseek2 softmax": strings.Replace(latentNames, "attn_q_a attn_q_a_norm attn_q_b", "attn_q", 1) +
		" ffn_gate_inp ffn_gate_exps ffn_down_exps ffn_up_exps ffn_gate_shexp ffn_up_shexp ffn_down_shexp",
	"deepseek2 softmax dense":         strings.Replace(latentNames, "attn_q_a attn_q_a_norm attn_q_b", "attn_q", 1) + " ffn_gate ffn_up ffn_down",
	"minicpm3":                        strings.Replace(latentNames, "attn_k_b attn_v_b", "attn_kv_b", 1) + " ffn_gate ffn_up ffn_down",
	"granitehybrid":                   "attn_norm " + mambaNames + " ssm_norm ffn_norm ffn_gate ffn_up ffn_down",
	"granitehybrid attention":         "attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_gate ffn_up ffn_down",
	"granitehybrid experts":           "attn_norm " + mambaNames + " ssm_norm ffn_norm " + sharedExperts,
	"granitehybrid experts attention": "attn_norm attn_q attn_k attn_v attn_output ffn_norm " + sharedExperts,
	"falcon-h1":                       "attn_norm attn_q attn_k attn_v attn_output " + mambaNames + " ffn_norm ffn_gate ffn_up ffn_down",
	"nemotron_h M":                    "attn_norm " + mambaNames + " ssm_norm",
	"nemotron_h *":                    "attn_norm attn_q attn_k attn_v attn_output",
	"nemotron_h -":                    "attn_norm ffn_up ffn_down",
	"nemotron_h E":                    "attn_norm ffn_gate_inp exp_probs_b.bias ffn_down_exps ffn_up_exps ffn_up_shexp ffn_down_shexp",
	"hunyuan-dense":                   "attn_norm attn_q attn_k attn_v attn_q_norm attn_k_norm attn_output ffn_norm ffn_gate ffn_up ffn_down",
}

const (
	routedExperts = "ffn_gate_inp exp_probs_b.bias ffn_gate_exps ffn_down_exps ffn_up_exps"
	qwenExperts   = "ffn_gate_inp ffn_gate_exps ffn_down_exps ffn_up_exps ffn_gate_inp_shexp ffn_gate_shexp ffn_up_shexp ffn_down_shexp"
	gemmaExperts  = "ffn_gate_inp ffn_gate_inp.scale ffn_gate_up_exps ffn_down_exps ffn_down_exps.scale post_ffw_norm_1 post_ffw_norm_2 pre_ffw_norm_2"
	sharedExperts = "ffn_gate_inp ffn_gate_exps ffn_down_exps ffn_up_exps ffn_gate_shexp ffn_up_shexp ffn_down_shexp"
	mambaNames    = "ssm_in ssm_conv1d ssm_conv1d.bias ssm_dt.bias ssm_a ssm_d ssm_out"
	latentNames   = "attn_norm attn_q_a attn_q_a_norm attn_q_b attn_kv_a_mqa attn_kv_a_norm attn_k_b attn_v_b attn_output ffn_norm"
)

// publishedLayer returns the names of a layer's tensors.
func publishedLayer(s *Shape, l int) string {
	name := s.Arch
	if s.States.Blocks != "" {
		return published["nemotron_h "+s.States.Blocks[l:l+1]]
	}
	if s.Name == "deepseek-v2-lite" {
		name += " softmax"
	}
	if s.Name == "granite-4-h-tiny" {
		name += " experts"
	}
	switch attends := slices.Contains([]int{2, 6, 10, 14, 18, 21}, l); {
	case s.Arch == "granitehybrid" && l%10 == 5:
		name += " attention"
	case (strings.HasPrefix(name, "qwen35") || name == "qwen3next") && l%4 == 3, name == "lfm2moe" && attends:
		name += " attention"
	case name == "lfm2moe" && l < 2, s.Arch == "deepseek2" && l < map[string]int{"deepseek-v3": 3}[s.Name] || s.Arch == "deepseek2" && l < 1:
		name += " dense"
	case s.Name == "gemma-4-26b-a4b" && l%6 == 5:
		name += " experts attention"
	case s.Name == "gemma-4-26b-a4b":
		name += " experts"
	}
	return published[name]
}

func TestTensorsMatchPublishedFiles(t *testing.T) {
	for _, s := range Shapes() {
		var want []string
		if s.Rope.Factor != 0 || s.Arch == "gemma4" {
			want = append(want, "rope_freqs.weight")
		}
		want = append(want, "token_embd.weight")
		if s.Encoder.on() {
			want = append(want, "token_types.weight", "token_embd_norm.weight", "token_embd_norm.bias")
		}
		if s.Arch == "bert" {
			want = append(want, "position_embd.weight")
		}
		switch {
		case s.Arch == "lfm2moe":
			want = append(want, "token_embd_norm.weight")
		case !s.Encoder.on():
			want = append(want, "output_norm.weight")
		}
		if s.Arch == "minicpm3" {
			want = append(want, "rope_factors_long.weight", "rope_factors_short.weight")
		}
		if s.Arch == "gemma3n" {
			want = append(want, "altup_proj.weight", "altup_unembd_proj.weight")
		}
		if s.Name == "gemma-4-e2b" || s.Arch == "gemma3n" {
			want = append(want, "per_layer_token_embd.weight", "per_layer_model_proj.weight", "per_layer_proj_norm.weight")
		}
		if !s.Tied {
			want = append(want, "output.weight")
		}
		for l := range s.Layers {
			for _, name := range strings.Fields(publishedLayer(&s, l)) {
				if !strings.HasSuffix(name, ".bias") && !strings.HasSuffix(name, ".scale") && name != "ssm_a" && name != "ssm_d" && (name != "ffn_norm" || s.Arch != "falcon-h1") {
					name += ".weight"
				}
				want = append(want, fmt.Sprintf("blk.%d.%s", l, name))
			}
		}
		var got []string
		for _, tensor := range s.tensors() {
			got = append(got, tensor.name)
		}
		require.ElementsMatch(t, want, got, s.Name)
	}
}

// TestParameters compares the number of weights with the numbers of the authors, in
// millions.
func TestParameters(t *testing.T) {
	for name, millions := range map[string]float64{
		"qwen2.5-0.5b": 494, "qwen2.5-1.5b": 1544, "qwen2.5-3b": 3086, "qwen2.5-7b": 7616,
		"llama-3.2-1b": 1236, "llama-3.2-3b": 3213, "llama-3.1-8b": 8030, "mistral-7b-v0.3": 7248,
		"qwen3-0.6b": 596, "qwen3-4b": 4022, "qwen3-30b-a3b": 30532, "gemma-3-1b": 1000, "phi-3-mini-4k": 3821,
		"smollm3-3b": 3075, "olmoe-1b-7b": 6919, "gpt-oss-20b": 20915, "deepseek-v2-lite": 15706, "mamba2-1.3b": 1344, "falcon-h1-0.5b": 521,
	} {
		s, ok := FindShape(name)
		require.True(t, ok)
		require.InDelta(t, millions, float64(s.Parameters())/1e6, 1, name)
	}
}

// TestLargeParameters compares with numbers that the authors give in billions, without what is not text: of Gemma 4 E2B
// they count 2.3 besides the embedding of the layers.
func TestLargeParameters(t *testing.T) {
	table := 262144 * 35 * 256 / 1e9
	for name, billions := range map[string]float64{
		"lfm2-8b-a1b": 8.3, "gemma-4-26b-a4b": 25.2, "gemma-4-e2b": 2.3 + table, "qwen3.5-35b-a3b": 34.7, "glm-4.7-flash": 29.9,
		"qwen3-next-80b-a3b": 79.7, "gemma-3n-e2b": 4.46, "deepseek-v3": 671, "minicpm3-4b": 4.07, "granite-4-h-micro": 3.19,
		"granite-4-h-tiny": 6.94, "nemotron-nano-9b-v2": 8.89, "nemotron-3-nano-30b-a3b": 31.6,
	} {
		s, ok := FindShape(name)
		require.True(t, ok)
		require.InDelta(t, billions, float64(s.Parameters())/1e9, 0.07, name)
	}
}

// TestBytesPerToken checks the mixes: it compares the bytes that decoding a token reads
// with those of published Q4_0 files, in 10^6 bytes.
func TestBytesPerToken(t *testing.T) {
	for name, megabytes := range map[string]float64{
		"qwen2.5-0.5b": 346, "llama-3.2-1b": 763, "qwen2.5-1.5b": 929, "llama-3.1-8b": 4358,
	} {
		s, ok := FindShape(name)
		require.True(t, ok)
		total, err := s.Bytes("q4_0")
		require.NoError(t, err)
		if !s.Tied { // decoding reads a single row of the embedding
			embedding, _, err := store.Bytes(quant.Q4_0, []int{s.Vocab, s.Dim})
			require.NoError(t, err)
			total -= embedding
		}
		require.InDelta(t, megabytes, float64(total)/1e6, 1, name)
	}
}

func TestMixes(t *testing.T) {
	for _, test := range []struct{ shape, mix, tensor, want string }{
		{"llama-3.1-8b", "q4_0", "token_embd", "Q4_0"},
		{"llama-3.1-8b", "q4_0", "output", "Q6_K"},
		{"llama-3.2-1b", "q4_0", "token_embd", "Q6_K"},
		{"llama-3.2-1b", "q8_0", "token_embd", "Q8_0"},
		{"llama-3.2-1b", "f16", "token_embd", "F16"},
		{"llama-3.1-8b", "q4_k_m", "blk.3.attn_v", "Q6_K"},   // the first eighth
		{"llama-3.1-8b", "q4_k_m", "blk.4.attn_v", "Q4_K"},   // of four layers
		{"llama-3.1-8b", "q4_k_m", "blk.6.ffn_down", "Q6_K"}, // every third
		{"llama-3.1-8b", "q4_k_m", "blk.27.ffn_down", "Q6_K"},
		{"llama-3.1-8b", "q4_k_m", "blk.26.ffn_down", "Q4_K"},
		{"llama-3.1-8b", "q4_k_m", "blk.28.ffn_down", "Q6_K"}, // the last eighth
		{"llama-3.1-8b", "q4_k_m", "blk.28.ffn_up", "Q4_K"},
		{"llama-3.1-8b", "q5_k_m", "blk.0.attn_v", "Q6_K"},
		{"llama-3.1-8b", "q5_k_m", "blk.0.attn_q", "Q5_K"},
		{"llama-3.1-8b", "q6_k", "blk.0.attn_q", "Q6_K"},
		{"phi-3-mini-4k", "q4_k_m", "blk.0.attn_qkv", "Q5_K"},
		{"phi-3-mini-4k", "q5_k_m", "blk.0.attn_qkv", "Q6_K"},
		{"qwen2.5-0.5b", "q4_0", "token_embd", "Q8_0"}, // 896 is not a multiple of 256
		{"qwen2.5-0.5b", "q4_k_m", "blk.0.attn_q", "Q5_0"},
		{"qwen2.5-0.5b", "q5_k_m", "blk.0.attn_q", "Q5_1"},
		{"qwen2.5-0.5b", "q4_k_m", "blk.0.ffn_down", "Q6_K"},
		{"qwen3-30b-a3b", "q4_k_m", "blk.0.ffn_down_exps", "Q6_K"},
		{"qwen3-30b-a3b", "q4_k_m", "blk.0.ffn_gate_inp", "F32"},
		{"qwen3-30b-a3b", "q4_k_m", "blk.0.attn_norm", "F32"},
		{"llama-3.2-1b", "iq2_xs", "token_embd", "Q5_K"},
		{"llama-3.1-8b", "iq2_xs", "token_embd", "Q2_K"},
		{"llama-3.2-1b", "iq2_xs", "blk.1.ffn_down", "Q2_K"}, // the first eighth
		{"llama-3.2-1b", "iq2_xs", "blk.2.ffn_down", "IQ2_XS"},
		{"llama-3.2-1b", "iq2_xs", "blk.2.attn_v", "Q4_K"},
		{"llama-3.2-1b", "iq3_xxs", "blk.2.attn_q", "IQ2_S"},
		{"llama-3.2-1b", "iq3_xxs", "blk.2.attn_output", "IQ3_S"},
		{"llama-3.2-1b", "iq3_s", "token_embd", "Q6_K"},
		{"llama-3.2-1b", "mxfp4", "blk.2.ffn_up", "MXFP4"},
		{"llama-3.2-1b", "mxfp4", "token_embd", "Q8_0"},
		{"qwen2.5-0.5b", "iq3_s", "blk.0.attn_q", "IQ4_NL"}, // 896 is not a multiple of 256
		{"gemma-4-e2b", "q4_k_m", "per_layer_token_embd", "Q4_K"},
		{"gemma-4-e2b", "q4_k_m", "per_layer_model_proj", "BF16"},
		{"gemma-4-e2b", "f16", "per_layer_model_proj", "F16"},
		{"glm-4.7-flash", "q4_k_m", "blk.0.attn_k_b", "Q5_0"}, // 192 is not a multiple of 256
		{"qwen3.5-35b-a3b", "q4_k_m", "blk.0.ffn_gate_inp_shexp", "F32"},
	} {
		s, ok := FindShape(test.shape)
		require.True(t, ok)
		m, ok := findMix(test.mix)
		require.True(t, ok)
		got := "missing"
		for _, tensor := range s.tensors() {
			if tensor.name == test.tensor+".weight" {
				got = m.typeOf(&tensor, s.Layers).String()
			}
		}
		require.Equal(t, test.want, got, "%s of %s as %s", test.tensor, test.shape, test.mix)
	}
}

// TestFillersHaveTheRequestedDeviation decodes random blocks and measures their deviation.
func TestFillersHaveTheRequestedDeviation(t *testing.T) {
	const elems = 1 << 18
	for _, typ := range []quant.Type{
		quant.Q4_0, quant.Q5_0, quant.Q5_1, quant.Q8_0, quant.Q4_K, quant.Q5_K, quant.Q6_K, quant.F16, quant.BF16, quant.MXFP4,
		quant.Q2_K, quant.IQ4_NL, quant.IQ2_XS, quant.IQ2_S, quant.IQ3_XXS, quant.IQ3_S,
	} {
		const want = 0x1p-6 * 1.5275 // 16-bit floats can have this deviation too
		fill, err := newFiller(typ, want)
		require.NoError(t, err)
		src := newSource(1, "x")
		raw := make([]byte, elems/typ.BlockElems()*typ.BlockBytes())
		fill(&src, raw)
		values := make([]float32, elems)
		quant.DequantRow(typ, values, raw)
		var sum float64
		for _, v := range values {
			sum += float64(v)
		}
		require.InEpsilon(t, want, deviation(values), 0.05, typ)
		require.Less(t, math.Abs(sum/elems), want/20, typ)
	}
	_, err := newFiller(quant.IQ4_XS, 1)
	require.ErrorContains(t, err, "IQ4_XS")
}

func TestSymmetricBytes(t *testing.T) {
	src := newSource(1, "x")
	seen := map[byte]bool{}
	for n := range 300 {
		p := make([]byte, n)
		symmetricBytes(&src, p)
		for _, b := range p {
			seen[b] = true
		}
	}
	require.Len(t, seen, 255)
	require.NotContains(t, seen, byte(0x80))
}

// TestRopeFactors compares with the published values of Llama 3.1.
func TestRopeFactors(t *testing.T) {
	s, _ := FindShape("llama-3.1-8b")
	factors := s.ropeFactors()
	require.Len(t, factors, 64)
	require.Equal(t, float32(1), factors[0])
	require.Equal(t, float32(1), factors[28])
	require.Equal(t, float32(8), factors[63])
	require.Greater(t, factors[33], factors[30])
}

func BenchmarkFillers(b *testing.B) {
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0, quant.Q4_K, quant.F16} {
		b.Run(typ.String(), func(b *testing.B) {
			fill, err := newFiller(typ, 0.02)
			require.NoError(b, err)
			src := newSource(1, "x")
			p := make([]byte, bufferBytes/typ.BlockBytes()*typ.BlockBytes())
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				fill(&src, p)
			}
		})
	}
}

// TestMatrices checks that Matrices returns the matrices of the file, and the embedding
// only if it is tied.
func TestMatrices(t *testing.T) {
	for _, s := range Shapes() {
		list, err := s.Matrices("q4_0")
		require.NoError(t, err)
		weights := int64(0)
		names := map[string]int{}
		for _, m := range list {
			weights += int64(m.Rows) * int64(m.Cols) * int64(max(1, m.Experts))
			names[m.Name]++
		}
		require.Equal(t, 1, names["output"], s.Name)
		if s.Arch == "gemma4" && s.Experts > 0 { // both in each layer
			names["ffn_down"] = 0
		}
		mlps := 0
		for l := range s.Layers {
			if s.States.hasMLP(l) {
				mlps++
			}
			if s.States.inLayer(l) { // the taps of its convolution are no matrix
				weights += int64(s.States.Taps * (s.States.inner() + 2*s.States.Groups*s.States.Size))
			}
		}
		require.Equal(t, mlps, names["ffn_down"]+names["ffn_down_exps"], s.Name)
		weights += int64(s.Vocab) * int64(s.Layered.PerLayer*s.Layers)
		weights += int64(s.Encoder.Types) * int64(s.Dim)
		if s.Encoder.Positions {
			weights += int64(s.Context) * int64(s.Dim)
		}
		if !s.Tied {
			weights += int64(s.Vocab) * int64(s.Dim)
		}
		rest := 0.001
		if s.Encoder.on() {
			rest = 0.002 // all matrices have biases
		}
		require.InEpsilon(t, s.Parameters(), weights, rest, "%s: the rest is norms and biases", s.Name)
	}
	tiny, _ := FindShape("tiny")
	list, err := tiny.Matrices("q4_0")
	require.NoError(t, err)
	require.Contains(t, list, Matrix{Name: "attn_q", Type: quant.Q4_0, Rows: 256, Cols: 256})
	_, err = tiny.Matrices("q0")
	require.ErrorIs(t, err, ErrOptions)
}
