package exec

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/store/gguf"
)

// TestGGUFVariants rewrites an exported file as older and newer converters write it; the logits
// stay the same to the last bit.
func TestGGUFVariants(t *testing.T) {
	for _, c := range []struct {
		name, fixture string
		rewrite       func(t *testing.T, g *modeltest.GGUF)
	}{
		{"one tensor for each expert", "qwen2_moe", expertsUnstacked},
		{"gate and up of experts in one tensor", "qwen2_moe", expertsFused},
		{"queries, keys and values in one tensor", "llama32", projectionsFused},
		{"window pattern as a list", "gemma3", func(_ *testing.T, g *modeltest.GGUF) {
			g.Set("gemma3.attention.sliding_window_pattern", []bool{true, true, false, true})
		}},
		{"no local rope base", "gemma3", func(_ *testing.T, g *modeltest.GGUF) { g.Drop("gemma3.rope.freq_base_swa") }},
		{"last norm by its later name", "lfm2", func(t *testing.T, g *modeltest.GGUF) {
			g.Tensor(t, "token_embd_norm.weight").Name = "output_norm.weight"
		}},
		{"MLP size in a list", "lfm2", func(_ *testing.T, g *modeltest.GGUF) {
			g.Set("lfm2.feed_forward_length", []int32{192, 192, 192})
		}},
		{"no token list", "lfm2", func(_ *testing.T, g *modeltest.GGUF) { g.Drop("tokenizer.ggml.tokens") }},
		{"no sizes of heads", "llama32", func(_ *testing.T, g *modeltest.GGUF) {
			g.Drop("llama.attention.key_length")
			g.Drop("llama.attention.value_length")
			g.Drop("llama.rope.dimension_count")
		}},
		{"wider integers", "llama3", func(_ *testing.T, g *modeltest.GGUF) {
			g.Set("llama.block_count", uint64(2))
			g.Set("llama.attention.head_count_kv", int64(2))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ids := span32(3, 40)
			g := modeltest.ExportFixture(t, modeltest.Fixture(t, c.fixture))
			want := allLogits(t, loadModel(t, g.Write(t), "m.gguf", Options{Threads: 1}), ids)
			c.rewrite(t, g)
			require.Equal(t, want, allLogits(t, loadModel(t, g.Write(t), "m.gguf", Options{Threads: 1}), ids))
		})
	}
}

func span32(first, n int32) (out []int32) {
	for i := range n {
		out = append(out, first+i)
	}
	return out
}

// expertsUnstacked splits stacked experts into one tensor each, as files of the format's first year
// do.
func expertsUnstacked(_ *testing.T, g *modeltest.GGUF) {
	g.EachStack(func(d gguf.TensorData) (out []gguf.TensorData) {
		size := len(d.Data) / d.Shape[0]
		for i := range d.Shape[0] {
			name := strings.Replace(d.Name, "_exps.", fmt.Sprintf(".%d.", i), 1)
			out = append(out, gguf.TensorData{Name: name, Type: d.Type, Shape: d.Shape[1:], Data: d.Data[i*size : (i+1)*size]})
		}
		return out
	})
}

// expertsFused joins gate and up of the experts, as the converter does on request.
func expertsFused(t *testing.T, g *modeltest.GGUF) {
	g.EachStack(func(d gguf.TensorData) []gguf.TensorData {
		if strings.Contains(d.Name, "ffn_down") {
			return []gguf.TensorData{d}
		}
		if strings.Contains(d.Name, "ffn_up") {
			return nil
		}
		up := g.Tensor(t, strings.Replace(d.Name, "gate", "up", 1))
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
func projectionsFused(t *testing.T, g *modeltest.GGUF) {
	for l := range 3 {
		name := func(part string) string { return fmt.Sprintf("blk.%d.attn_%s.weight", l, part) }
		q, k, v := *g.Tensor(t, name("q")), *g.Tensor(t, name("k")), *g.Tensor(t, name("v"))
		for _, part := range []string{"q", "k", "v"} {
			g.DropTensor(t, name(part))
		}
		fused := gguf.TensorData{Name: name("qkv"), Type: q.Type, Shape: []int{q.Shape[0] + k.Shape[0] + v.Shape[0], q.Shape[1]}}
		fused.Data = append(append(append(fused.Data, q.Data...), k.Data...), v.Data...)
		g.Tensors = append(g.Tensors, fused)
	}
}

// TestDenseLayersOfExpertModels loads models without a key that lists the dense layers: the
// tensors decide which layers are dense.
func TestDenseLayersOfExpertModels(t *testing.T) {
	g := modeltest.ExportFixture(t, modeltest.Fixture(t, "qwen2_moe"))
	for _, role := range []string{"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp", "ffn_gate_inp", "ffn_gate_inp_shexp"} {
		g.DropTensor(t, "blk.1."+role+".weight")
	}
	for role, shape := range map[string][]int{"ffn_gate": {128, 64}, "ffn_up": {128, 64}, "ffn_down": {64, 128}} {
		values := slices.Repeat([]float32{0.01}, modelfile.Elems(shape))
		g.Tensors = append(g.Tensors, gguf.TensorData{Name: "blk.1." + role + ".weight", Type: 1, Shape: shape, Data: modelfile.AppendFloats(nil, values)})
	}
	m := loadModel(t, g.Write(t), "m.gguf", Options{Threads: 1})
	require.Len(t, m.Spec.Layers, 2)
	require.True(t, m.Spec.Layers[0].Experts)
	require.False(t, m.Spec.Layers[1].Experts)
	require.False(t, math.IsNaN(float64(allLogits(t, m, []int32{1})[0][0])))
}
