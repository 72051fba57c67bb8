package exec

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// benchModel loads the bundled model.
func benchModel(b *testing.B) *Model {
	b.Helper()
	f, err := modelfile.Open(vfs.OS(), hubmodel.Dir(testutil.Root(b)))
	if err != nil {
		b.Fatal(err)
	}
	m, err := Load(context.Background(), f, Options{KV: kv.K8V8})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { m.Close(); f.Close() })
	return m
}

// BenchmarkDecode decodes token by token after a context of 256 tokens.
func BenchmarkDecode(b *testing.B) { benchExtend(b, 256, 1) }

// BenchmarkPrefill prefills chunks of 256 tokens.
func BenchmarkPrefill(b *testing.B) { benchExtend(b, 0, 256) }

func benchExtend(b *testing.B, depth, n int) {
	m := benchModel(b)
	s, err := m.NewSequence(0)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	ids := longPrompt(m.Spec.Vocab, depth+n, 1)
	read := func(part []int32) {
		r := &ExtendOptions{Each: func(int, []float32) error { return nil }}
		if err := m.Extend(context.Background(), s, part, r); err != nil {
			b.Fatal(err)
		}
	}
	if depth > 0 {
		read(ids[:depth])
	}
	b.ResetTimer()
	for range b.N {
		read(ids[depth:])
		s.Truncate(depth)
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "tok/s")
}

// BenchmarkSharedDecode generates answers of several sequences at the same time.
func BenchmarkSharedDecode(b *testing.B) {
	for _, n := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := benchModel(b)
			all := make([]*Sequence, n)
			for i := range all {
				all[i] = newBenchSequence(b, m)
				require.NoError(b, m.Extend(b.Context(), all[i], longPrompt(m.Spec.Vocab, 16, uint64(i)), &ExtendOptions{}))
			}
			benchTogether(b, m, all)
		})
	}
}

// BenchmarkForksDecode generates answers behind one prompt of 16384 tokens at the same time.
func BenchmarkForksDecode(b *testing.B) {
	for _, n := range []int{1, 8} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := benchModel(b)
			all := []*Sequence{newBenchSequence(b, m)}
			require.NoError(b, m.Fill(b.Context(), all[0], 16384))
			for len(all) < n {
				f, err := all[0].Fork()
				require.NoError(b, err)
				b.Cleanup(f.Close)
				all = append(all, f)
			}
			benchTogether(b, m, all)
		})
	}
}

func newBenchSequence(b *testing.B, m *Model) *Sequence {
	s, err := m.NewSequence(0)
	require.NoError(b, err)
	b.Cleanup(s.Close)
	return s
}

// benchTogether extends sequences at the same time, each by b.N tokens.
func benchTogether(b *testing.B, m *Model, all []*Sequence) {
	begun := Passes(m)
	var running sync.WaitGroup
	b.ResetTimer()
	for _, s := range all {
		running.Go(func() {
			o := &ExtendOptions{Each: func(int, []float32) error { return nil }}
			for i := range b.N {
				if err := m.Extend(b.Context(), s, []int32{int32(i % m.Spec.Vocab)}, o); err != nil {
					b.Error(err)
				}
			}
		})
	}
	running.Wait()
	b.StopTimer()
	passes := Passes(m)
	b.ReportMetric(float64(passes.Tokens-begun.Tokens)/float64(passes.Passes-begun.Passes), "tok/pass")
	b.ReportMetric(float64(len(all)*b.N)/b.Elapsed().Seconds(), "tok/s")
}

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
		values := make([]float32, modelfile.Elems(shape))
		for i := range values {
			values[i] = rng.Float32() - 0.5
		}
		tensors = append(tensors, safetensors.TensorData{
			Name: arch.Llama.HFName(role, layer) + ".weight", Type: quant.F32, Shape: shape, Data: modelfile.AppendFloats(nil, values),
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
	modeltest.WriteFile(tb, fsys, "m/config.json", modeltest.ConfigOf(tb, "llama", modeltest.Fields{
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
