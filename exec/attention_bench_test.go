package exec

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// attentionModel returns a model with attention of a real size; the residual stream and the MLP
// are narrow, so that attention dominates.
func attentionModel(tb testing.TB, layers, heads, kvHeads, headDim int, format kv.Format) *Model {
	tb.Helper()
	const dim, vocab = 32, 32
	rng := rand.New(rand.NewPCG(1, 2))
	fsys := vfs.NewMem()
	require.NoError(tb, fsys.MkdirAll("m"))
	var tensors []safetensors.TensorData
	add := func(role string, layer int, shape ...int) {
		r := &rows{typ: quant.F32, shape: shape}
		for range modelfile.Elems(shape) {
			r.appendFloat(rng.Float32() - 0.5)
		}
		tensors = append(tensors, safetensors.TensorData{
			Name: arch.Llama.HFName(role, layer) + ".weight", Type: r.typ, Shape: r.shape, Data: r.data,
		})
	}
	add("token_embd", -1, vocab, dim)
	add("output_norm", -1, dim)
	add("output", -1, vocab, dim)
	for l := range layers {
		add("attn_norm", l, dim)
		add("attn_q", l, heads*headDim, dim)
		add("attn_k", l, kvHeads*headDim, dim)
		add("attn_v", l, kvHeads*headDim, dim)
		add("attn_output", l, dim, heads*headDim)
		add("ffn_norm", l, dim)
		add("ffn_gate", l, dim, dim)
		add("ffn_up", l, dim, dim)
		add("ffn_down", l, dim, dim)
	}
	require.NoError(tb, safetensors.Write(fsys, "m/model.safetensors", tensors))
	writeFile(tb, fsys, "m/config.json", configOf(tb, "llama", fields{
		"hidden_size": dim, "num_hidden_layers": layers, "intermediate_size": dim, "vocab_size": vocab, "head_dim": headDim,
		"num_attention_heads": heads, "num_key_value_heads": kvHeads, "max_position_embeddings": 1 << 15,
	}))
	f, err := modelfile.Open(fsys, "m")
	require.NoError(tb, err)
	m, err := Load(context.Background(), f, Options{Threads: 1, KV: format})
	require.NoError(tb, err)
	tb.Cleanup(func() { m.Close(); f.Close() })
	return m
}

// BenchmarkAttention measures the attention of all layers of Llama-3.2-1B on one thread, for one
// token and for a chunk. With an 8-bit KV cache, one token reads 71 MB at a depth of 4096.
func BenchmarkAttention(b *testing.B) {
	for _, format := range kv.Formats() {
		m := attentionModel(b, 16, 32, 8, 64, format)
		s, err := m.NewSequence(0)
		require.NoError(b, err)
		for _, depth := range []int{0, 1024, 4096} {
			for _, n := range []int{1, 256} {
				b.Run(fmt.Sprintf("%s/depth=%d/n=%d", format, depth, n), func(b *testing.B) {
					r := &ExtendOptions{Each: func(int, []float32) error { return nil }}
					if ids := longPrompt(m.Spec.Vocab, depth-s.Len(), 1); len(ids) > 0 {
						require.NoError(b, m.Extend(context.Background(), s, ids, r))
					}
					ids := longPrompt(m.Spec.Vocab, n, 2)
					for b.Loop() {
						require.NoError(b, m.Extend(context.Background(), s, ids, r))
						s.Truncate(depth)
					}
				})
			}
		}
		s.Close()
	}
}
