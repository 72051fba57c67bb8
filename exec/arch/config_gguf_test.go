package arch_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/store/gguf"
)

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
			"olmo3 without a pattern", "olmo2",
			[]gguf.KV{{Key: "attention.sliding_window", Value: uint32(8)}},
			func(t *testing.T, s *arch.Spec) {
				require.Equal(t, []int{8, 8}, windows(s), "all but every fourth layer")
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
			"gemma2 of the first converters, which wrote no caps and no window", "gemma2", nil,
			func(t *testing.T, s *arch.Spec) {
				require.Equal(t, []float32{50, 30}, []float32{s.AttnSoftcap, s.FinalSoftcap})
				require.Equal(t, []int{4096, 0}, windows(s))
			},
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
		{"the first qwen3next files omit which layers attend", "qwen3next", []gguf.KV{
			{Key: "block_count", Value: uint32(8)},
			{Key: "ssm.conv_kernel", Value: uint32(4)},
			{Key: "ssm.state_size", Value: uint32(4)},
			{Key: "ssm.time_step_rank", Value: uint32(2)},
			{Key: "ssm.inner_size", Value: uint32(8)},
		}, func(t *testing.T, s *arch.Spec) {
			for l := range s.Layers {
				require.Equal(t, l%4 == 3, s.Layers[l].Mixer == arch.Attention, "layer %d", l)
			}
		}},
		{"nemotron_h_moe has groups of experts", "nemotron_h_moe", []gguf.KV{
			{Key: "ssm.conv_kernel", Value: uint32(4)},
			{Key: "ssm.state_size", Value: uint32(4)},
			{Key: "ssm.time_step_rank", Value: uint32(2)},
			{Key: "ssm.inner_size", Value: uint32(8)},
			{Key: "expert_count", Value: uint32(8)},
			{Key: "expert_used_count", Value: uint32(2)},
			{Key: "expert_group_count", Value: uint32(4)},
			{Key: "expert_group_used_count", Value: uint32(2)},
		}, func(t *testing.T, s *arch.Spec) {
			require.Equal(t, arch.ExpertGroups{Count: 4, Used: 2, Best: 2}, s.Groups)
		}},
		{"other exaone4 have none", "exaone4", nil, func(t *testing.T, s *arch.Spec) {
			require.Equal(t, []int{0, 0}, windows(s))
			require.Equal(t, []int{0, 0}, ropes(s))
		}},
		{"unless the file says so", "qwen2moe", []gguf.KV{
			{Key: "expert_count", Value: uint32(4)}, {Key: "expert_used_count", Value: uint32(2)}, {Key: "expert_weights_norm", Value: true},
		}, func(t *testing.T, s *arch.Spec) { require.True(t, s.NormTopK) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := modeltest.TinyGGUF().As(c.arch)
			for _, k := range c.keys {
				g.Set(c.arch+"."+k.Key, k.Value)
				if k.Key != "block_count" {
					continue
				}
				for l := range k.Value.(uint32) {
					if l >= 2 { // behind those of the small model
						g.AddFloats(fmt.Sprintf("blk.%d.attn_norm.weight", l), make([]float64, modeltest.TinyDim))
					}
				}
			}
			f, err := modelfile.Open(g.Write(t), "m.gguf")
			require.NoError(t, err)
			s, err := f.Spec()
			require.NoError(t, err)
			c.check(t, s)
		})
	}
}

// TestWindowsOfGGUF checks the windows of files without their keys: the largest EXAONE 4, which its number of layers
// identifies, and Gemma 3n, whose files have only the width.
func TestWindowsOfGGUF(t *testing.T) {
	const layers = 64
	for family, want := range map[string][][]int{
		"exaone4": {{4096, 4096, 4096, 0, 4096, 4096}, {0, 0, 0, -1, 0, 0}},
		"gemma3n": {{16, 16, 16, 16, 0, 16}, {1, 1, 1, 1, 0, 1}},
	} {
		g := modeltest.TinyGGUF().As(family)
		g.Set(family+".block_count", uint32(layers))
		for l := 2; l < layers; l++ {
			g.AddFloats(fmt.Sprintf("blk.%d.attn_norm.weight", l), make([]float64, modeltest.TinyDim))
		}
		if family == "gemma3n" {
			g.Set(family+".attention.sliding_window", uint32(16))
			g.Set(family+".embedding_length_per_layer_input", uint32(2))
			g.Set(family+".altup.num_inputs", uint32(2))
			g.AddFloats("blk.0.laurel_l.weight", make([]float64, modeltest.TinyDim))
			laurel := g.Tensor(t, "blk.0.laurel_l.weight")
			laurel.Shape = []int{1, modeltest.TinyDim}
		}
		f, err := modelfile.Open(g.Write(t), "m.gguf")
		require.NoError(t, err)
		s, err := f.Spec()
		require.NoError(t, err, family)
		require.Equal(t, want, [][]int{windows(s)[:6], ropes(s)[:6]}, family)
	}
}
