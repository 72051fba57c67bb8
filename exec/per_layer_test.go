package exec

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/gguf"
)

// tinyPerLayer returns the first layer of the small model with an embedding of its own, of tokens in rows.
func tinyPerLayer(rows int) *modeltest.GGUF {
	const family, width = "gemma4", 4
	g := modeltest.TinyGGUF().As(family)
	g.Set(family+".block_count", uint32(1))
	g.Set(family+".embedding_length_per_layer_input", uint32(width))
	g.Tensors = slices.DeleteFunc(g.Tensors, func(d gguf.TensorData) bool { return len(d.Name) > 6 && d.Name[:6] == "blk.1." })
	value := uint32(1)
	add := func(name string, shape ...int) {
		var data []byte
		for range modelfile.Elems(shape) {
			value = value*1664525 + 1013904223
			data = modelfile.AppendFloats(data, []float32{float32(value>>8)/(1<<24) - 0.5})
		}
		g.Tensors = append(g.Tensors, gguf.TensorData{Name: name + ".weight", Type: quant.F32, Shape: shape, Data: data})
	}
	add("per_layer_token_embd", rows, width)
	add("per_layer_model_proj", width, modeltest.TinyDim)
	add("per_layer_proj_norm", width)
	add("blk.0.inp_gate", width, modeltest.TinyDim)
	add("blk.0.proj", modeltest.TinyDim, width)
	for _, role := range []string{"post_norm", "post_attention_norm", "post_ffw_norm"} {
		add("blk.0."+role, modeltest.TinyDim)
	}
	add("blk.0.attn_q_norm", modeltest.TinyHead)
	add("blk.0.attn_k_norm", modeltest.TinyHead)
	return g
}

// TestOneLayerWithAnEmbedding: the only layer is the last one, which computes just the tokens whose logits are wanted;
// their embeddings arrive in the order of all tokens.
func TestOneLayerWithAnEmbedding(t *testing.T) {
	ids := []int32{1, 7, 3, 9, 4, 2}
	m := loadModel(t, tinyPerLayer(modeltest.TinyVocab).Write(t), "m.gguf", Options{Threads: 1, Chunk: 8})
	want := allLogits(t, m, ids)
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	some := map[int][]float32{}
	require.NoError(t, m.Extend(context.Background(), s, ids, &ExtendOptions{
		Want: func(pos int) bool { return pos == 2 || pos == 5 },
		Each: func(pos int, logits []float32) error {
			some[pos] = slices.Clone(logits)
			return nil
		},
	}))
	require.Equal(t, map[int][]float32{2: want[2], 5: want[5]}, some)
}
