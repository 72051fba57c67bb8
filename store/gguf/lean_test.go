package gguf

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestOpenTensors opens a model without the arrays of its tokenizer: the tensors and the other keys are
// the same, the arrays are absent but for their lengths, and the metadata take little memory.
func TestOpenTensors(t *testing.T) {
	tokens, scores := make([]string, 1000), make([]float32, 1000)
	for i := range tokens {
		tokens[i] = "token"
	}
	fsys := vfs.NewMem()
	require.NoError(t, Write(fsys, "m.gguf", []KV{
		{"general.architecture", "llama"},
		{"tokenizer.ggml.model", "gpt2"},
		{"tokenizer.ggml.tokens", tokens},
		{"tokenizer.ggml.scores", scores},
		{"llama.rope.factors", scores[:3]},
	}, []TensorData{{Name: "a", Type: quant.F32, Shape: []int{2}, Data: bytes.Repeat([]byte{1}, 8)}}))
	whole, err := Open(fsys, "m.gguf")
	require.NoError(t, err)
	defer whole.Close()
	lean, err := OpenTensors(fsys, "m.gguf")
	require.NoError(t, err)
	defer lean.Close()
	require.Equal(t, whole.Tensors(), lean.Tensors())
	require.Equal(t, whole.Meta().Keys(), lean.Meta().Keys())
	require.Less(t, lean.Meta().Memory(), whole.Meta().Memory()-5000)
	model, _, err := lean.Meta().String("tokenizer.ggml.model")
	require.NoError(t, err)
	require.Equal(t, "gpt2", model)
	factors, _, err := lean.Meta().Floats("llama.rope.factors")
	require.NoError(t, err)
	require.Len(t, factors, 3)
	for _, key := range []string{"tokenizer.ggml.tokens", "tokenizer.ggml.scores"} {
		n, ok := lean.Meta().Len(key)
		require.True(t, ok)
		require.Equal(t, 1000, n)
	}
	_, ok, err := lean.Meta().Strings("tokenizer.ggml.tokens")
	require.NoError(t, err)
	require.False(t, ok)
	_, ok, err = lean.Meta().Floats("tokenizer.ggml.scores")
	require.NoError(t, err)
	require.False(t, ok)
}
