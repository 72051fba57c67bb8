package exec

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/gguf"
)

// ownFixture returns a fixture of the repository.
func ownFixture(t testing.TB, name string) string {
	return testutil.Shared(t, "fixtures", name)
}

// TestGGUFVariants rewrites an exported file as older and newer converters write it; the logits
// stay the same to the last bit.
func TestGGUFVariants(t *testing.T) {
	for _, c := range []struct {
		name, fixture string
		rewrite       func(t *testing.T, g *ggufModel)
	}{
		{"one tensor for each expert", "qwen2_moe", expertsUnstacked},
		{"gate and up of experts in one tensor", "qwen2_moe", expertsFused},
		{"queries, keys and values in one tensor", "llama32", projectionsFused},
		{"window pattern as a list", "gemma3", func(_ *testing.T, g *ggufModel) {
			g.set("gemma3.attention.sliding_window_pattern", []bool{true, true, false, true})
		}},
		{"no local rope base", "gemma3", func(_ *testing.T, g *ggufModel) { g.drop("gemma3.rope.freq_base_swa") }},
		{"last norm by its later name", "lfm2", func(t *testing.T, g *ggufModel) {
			g.tensor(t, "token_embd_norm.weight").Name = "output_norm.weight"
		}},
		{"MLP size in a list", "lfm2", func(_ *testing.T, g *ggufModel) {
			g.set("lfm2.feed_forward_length", []int32{192, 192, 192})
		}},
		{"no token list", "lfm2", func(_ *testing.T, g *ggufModel) { g.drop("tokenizer.ggml.tokens") }},
		{"no sizes of heads", "llama32", func(_ *testing.T, g *ggufModel) {
			g.drop("llama.attention.key_length")
			g.drop("llama.attention.value_length")
			g.drop("llama.rope.dimension_count")
		}},
		{"wider integers", "llama3", func(_ *testing.T, g *ggufModel) {
			g.set("llama.block_count", uint64(2))
			g.set("llama.attention.head_count_kv", int64(2))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ids := span32(3, 40)
			g := exportFixture(t, ownFixture(t, c.fixture))
			want := allLogits(t, loadModel(t, g.write(t), "m.gguf", Options{Threads: 1}), ids)
			c.rewrite(t, g)
			require.Equal(t, want, allLogits(t, loadModel(t, g.write(t), "m.gguf", Options{Threads: 1}), ids))
		})
	}
}

func span32(first, n int32) (out []int32) {
	for i := range n {
		out = append(out, first+i)
	}
	return out
}

// eachStack calls f for every tensor of stacked experts and replaces the tensor by f's result.
func (g *ggufModel) eachStack(f func(d gguf.TensorData) []gguf.TensorData) {
	var out []gguf.TensorData
	for _, d := range g.tensors {
		if strings.HasSuffix(d.Name, "_exps.weight") {
			out = append(out, f(d)...)
		} else {
			out = append(out, d)
		}
	}
	g.tensors = out
}

// expertsUnstacked splits stacked experts into one tensor each, as files of the format's first year
// do.
func expertsUnstacked(_ *testing.T, g *ggufModel) {
	g.eachStack(func(d gguf.TensorData) (out []gguf.TensorData) {
		size := len(d.Data) / d.Shape[0]
		for i := range d.Shape[0] {
			name := strings.Replace(d.Name, "_exps.", fmt.Sprintf(".%d.", i), 1)
			out = append(out, gguf.TensorData{Name: name, Type: d.Type, Shape: d.Shape[1:], Data: d.Data[i*size : (i+1)*size]})
		}
		return out
	})
}

// expertsFused joins gate and up of the experts, as the converter does on request.
func expertsFused(t *testing.T, g *ggufModel) {
	g.eachStack(func(d gguf.TensorData) []gguf.TensorData {
		if strings.Contains(d.Name, "ffn_down") {
			return []gguf.TensorData{d}
		}
		if strings.Contains(d.Name, "ffn_up") {
			return nil
		}
		up := g.tensor(t, strings.Replace(d.Name, "gate", "up", 1))
		both := gguf.TensorData{
			Name: strings.Replace(d.Name, "gate", "gate_up", 1), Type: d.Type, Shape: []int{d.Shape[0], 2 * d.Shape[1], d.Shape[2]},
		}
		size := len(d.Data) / d.Shape[0]
		for i := range d.Shape[0] {
			both.Data = append(both.Data, d.Data[i*size:(i+1)*size]...)
			both.Data = append(both.Data, up.Data[i*size:(i+1)*size]...)
		}
		return []gguf.TensorData{both}
	})
}

// projectionsFused joins the three projections of each layer in one tensor.
func projectionsFused(t *testing.T, g *ggufModel) {
	for l := range 3 {
		name := func(part string) string { return fmt.Sprintf("blk.%d.attn_%s.weight", l, part) }
		q, k, v := *g.tensor(t, name("q")), *g.tensor(t, name("k")), *g.tensor(t, name("v"))
		for _, part := range []string{"q", "k", "v"} {
			g.dropTensor(t, name(part))
		}
		fused := gguf.TensorData{Name: name("qkv"), Type: q.Type, Shape: []int{q.Shape[0] + k.Shape[0] + v.Shape[0], q.Shape[1]}}
		fused.Data = append(append(append(fused.Data, q.Data...), k.Data...), v.Data...)
		g.tensors = append(g.tensors, fused)
	}
}

// TestDenseLayersOfExpertModels loads models without a key that lists the dense layers: the
// tensors decide which layers are dense.
func TestDenseLayersOfExpertModels(t *testing.T) {
	g := exportFixture(t, ownFixture(t, "qwen2_moe"))
	for _, role := range []string{"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp", "ffn_gate_inp", "ffn_gate_inp_shexp"} {
		g.dropTensor(t, "blk.1."+role+".weight")
	}
	for role, shape := range map[string][]int{"ffn_gate": {128, 64}, "ffn_up": {128, 64}, "ffn_down": {64, 128}} {
		r := &rows{shape: shape}
		for range modelfile.Elems(shape) {
			r.appendFloat(0.01)
		}
		g.tensors = append(g.tensors, gguf.TensorData{Name: "blk.1." + role + ".weight", Type: 1, Shape: shape, Data: r.data})
	}
	m := loadModel(t, g.write(t), "m.gguf", Options{Threads: 1})
	require.Equal(t, []bool{true, false}, routed(m.Spec))
	require.False(t, math.IsNaN(float64(allLogits(t, m, []int32{1})[0][0])))
}

// TestKeysOfGGUF checks the effect of single keys. It adds them to a small file of the
// architecture, whose rotary base is 10000.
func TestKeysOfGGUF(t *testing.T) {
	yarn := func(more ...gguf.KV) []gguf.KV {
		return append([]gguf.KV{
			{Key: "rope.scaling.type", Value: "yarn"},
			{Key: "rope.scaling.factor", Value: float32(4)},
			{Key: "rope.scaling.original_context_length", Value: uint32(16)},
		}, more...)
	}
	gain := func(want float32) func(*testing.T, *arch.Spec) {
		return func(t *testing.T, s *arch.Spec) { require.InEpsilon(t, want, s.Ropes[0].Gain, 1e-6) }
	}
	firstFreq := func(want ...float32) func(*testing.T, *arch.Spec) {
		return func(t *testing.T, s *arch.Spec) {
			for i, w := range want {
				require.InEpsilon(t, w, s.Ropes[i].Freq[0], 1e-6, "table %d", i)
			}
		}
	}
	for _, c := range []struct {
		name, arch string
		keys       []gguf.KV
		check      func(t *testing.T, s *arch.Spec)
	}{
		{"yarn", "qwen2", yarn(), gain(1.1386294)},
		{"yarn extends the context", "qwen2", yarn(), func(t *testing.T, s *arch.Spec) { require.Equal(t, 64, s.Context) }},
		{"yarn, gain given", "qwen2", yarn(gguf.KV{Key: "rope.scaling.yarn_attn_factor", Value: float32(1.5)}), gain(1.5)},
		{"yarn, gain scaled", "qwen2", yarn(gguf.KV{Key: "rope.scaling.attn_factor", Value: float32(0.5)}), gain(0.5693147)},
		{"yarn, gain cancelled", "llama", yarn(gguf.KV{Key: "rope.scaling.yarn_log_multiplier", Value: float32(1)}), gain(1)},
		{"linear", "qwen2", []gguf.KV{{Key: "rope.scaling.type", Value: "linear"}, {Key: "rope.scaling.factor", Value: float32(4)}}, firstFreq(0.25)},
		{"linear, old key", "qwen2", []gguf.KV{{Key: "rope.scale_linear", Value: float32(4)}}, firstFreq(0.25)},
		{"a factor without a type", "qwen2", []gguf.KV{{Key: "rope.scaling.factor", Value: float32(4)}}, firstFreq(0.25)},
		{"a factor and the type none", "qwen2", []gguf.KV{{Key: "rope.scaling.type", Value: "none"}, {Key: "rope.scaling.factor", Value: float32(4)}}, firstFreq(1)},
		{"gemma3 scales full layers only", "gemma3", []gguf.KV{
			{Key: "rope.scaling.type", Value: "linear"}, {Key: "rope.scaling.factor", Value: float32(8)},
		}, firstFreq(0.125, 1)},
		{
			"olmo3 scales full layers only", "olmo2", yarn(
				gguf.KV{Key: "attention.sliding_window", Value: uint32(8)},
				gguf.KV{Key: "attention.sliding_window_pattern", Value: []bool{true, false}}),
			func(t *testing.T, s *arch.Spec) {
				require.Equal(t, []int{8, 0}, windows(s))
				require.Equal(t, []int{1, 0}, ropes(s))
				require.Equal(t, float32(1), s.Ropes[1].Gain)
			},
		},
		{
			"granite without rotation", "granite",
			[]gguf.KV{{Key: "rope.scaling.finetuned", Value: false}},
			func(t *testing.T, s *arch.Spec) { require.Equal(t, []int{-1, -1}, ropes(s)) },
		},
		{
			"gemma2, every other layer", "gemma2",
			[]gguf.KV{{Key: "attention.sliding_window", Value: uint32(8)}},
			func(t *testing.T, s *arch.Spec) { require.Equal(t, []int{8, 0}, windows(s)) },
		},
		{
			"granite divides logits", "granite",
			[]gguf.KV{{Key: "logit_scale", Value: float32(8)}},
			func(t *testing.T, s *arch.Spec) { require.Equal(t, float32(0.125), s.LogitScale) },
		},
		{
			"qwen3moe scales weights", "qwen3moe",
			[]gguf.KV{{Key: "expert_count", Value: uint32(4)}, {Key: "expert_used_count", Value: uint32(2)}},
			func(t *testing.T, s *arch.Spec) { require.True(t, s.NormTopK) },
		},
		{
			"qwen2moe does not", "qwen2moe",
			[]gguf.KV{{Key: "expert_count", Value: uint32(4)}, {Key: "expert_used_count", Value: uint32(2)}},
			func(t *testing.T, s *arch.Spec) { require.False(t, s.NormTopK) },
		},
		{"unless the file says so", "qwen2moe", []gguf.KV{
			{Key: "expert_count", Value: uint32(4)}, {Key: "expert_used_count", Value: uint32(2)}, {Key: "expert_weights_norm", Value: true},
		}, func(t *testing.T, s *arch.Spec) { require.True(t, s.NormTopK) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := tinyGGUF().as(c.arch)
			for _, k := range c.keys {
				g.set(c.arch+"."+k.Key, k.Value)
			}
			f, err := modelfile.Open(g.write(t), "m.gguf")
			require.NoError(t, err)
			s, err := f.Spec()
			require.NoError(t, err)
			c.check(t, s)
		})
	}
}

// as returns the file with the keys of another architecture.
func (g *ggufModel) as(arch string) *ggufModel {
	for i := range g.keys {
		if rest, ok := strings.CutPrefix(g.keys[i].Key, "llama."); ok {
			g.keys[i].Key = arch + "." + rest
		}
	}
	g.set("general.architecture", arch)
	return g
}
