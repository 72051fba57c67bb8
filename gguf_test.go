package llmrun_test

import (
	"bytes"
	"context"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/synth"
)

// The tiny GGUF models have a SentencePiece vocabulary with <s> as begin-of-text token, and
// no chat template.
const (
	tinyBegin = 1
	tinyEnd   = 2
)

func TestBOSIsAddedOnce(t *testing.T) {
	e := open(t, testutil.Shared(t, "gguf", "tiny-llama-q8_0.gguf"), llmrun.Options{})
	ctx := context.Background()
	words := len(testutil.Must(e.Tokenizer().Encode("Hello world", llmrun.EncodeOptions{})))
	marked := testutil.Must(e.Tokenizer().Encode("Hello world", llmrun.EncodeOptions{Special: true}))
	require.Equal(t, int32(tinyBegin), marked[0])
	require.Len(t, marked, words+1)

	s := newSession(t, e)
	o := limit(3)
	o.IgnoreEOS = true
	a := complete(t, s.Generate(ctx, "Hello world", o))
	require.Equal(t, words+1, s.Stats().PromptTokens)
	require.Equal(t, a.IDs, complete(t, newSession(t, e).GenerateIDs(ctx, marked, o)).IDs)
	complete(t, s.Generate(ctx, "Hello world", o))
	require.Equal(t, words+1+3+words, s.Stats().PromptTokens, "BOS only at the beginning")

	empty := newSession(t, e)
	complete(t, empty.Generate(ctx, "", o)) // the begin-of-text token is a prompt
	require.Equal(t, 1, empty.Stats().PromptTokens)
}

// TestChatWithoutTemplate uses the built-in template, which leaves the begin-of-text token to
// the tokenizer.
func TestChatWithoutTemplate(t *testing.T) {
	e := open(t, testutil.Shared(t, "gguf", "tiny-llama-q8_0.gguf"), llmrun.Options{})
	require.False(t, e.Info().HasChatTemplate)
	for _, content := range []string{"Hello", "</s><s>", "Hello</s>\n<s> there"} {
		ids, err := e.EncodeChat([]llmrun.Message{{Role: "user", Content: content}}, llmrun.ChatOptions{})
		require.NoError(t, err)
		require.Equal(t, int32(tinyBegin), ids[0])
		require.NotContains(t, ids[1:], int32(tinyBegin), "%q", content)
		require.NotContains(t, ids[1:], int32(tinyEnd), "%q", content)
		text, err := e.Tokenizer().Decode(ids)
		require.NoError(t, err)
		require.Contains(t, text, content)
	}
	s := newSession(t, e)
	complete(t, s.Chat(context.Background(), "Hello", limit(4)))
	complete(t, s.Chat(context.Background(), "Hello", limit(4)))
	require.Positive(t, s.Stats().ReusedTokens)
	require.Len(t, s.Messages(), 4)
}

// TestOptionsOfQuantizedModel compares the perplexity of a model with different options: it
// differs, but not by much.
func TestOptionsOfQuantizedModel(t *testing.T) {
	path := testutil.Shared(t, "gguf", "tiny-llama-q4_k_m.gguf")
	ids := []int32{1, 485, 75, 297, 496, 489, 275, 376, 496, 495}
	perplexity := func(o llmrun.Options) llmrun.Perplexity {
		p, err := open(t, path, o).Perplexity(context.Background(), ids, llmrun.PerplexityOptions{})
		require.NoError(t, err)
		return p
	}
	exact := perplexity(llmrun.Options{Exact: true})
	require.Equal(t, exact, perplexity(llmrun.Options{Exact: true, Memory: llmrun.MemoryOptions{KV: "f32"}}), "the default KV with Exact")
	quick := perplexity(llmrun.Options{})
	require.Equal(t, quick, perplexity(llmrun.Options{Memory: llmrun.MemoryOptions{KV: "k8v8"}}), "the default KV with quantized weights")
	require.NotEqual(t, exact.MeanNLL, quick.MeanNLL)
	require.InEpsilon(t, exact.MeanNLL, quick.MeanNLL, 0.03)

	full, err := llmrun.Inspect(path, llmrun.Options{Memory: llmrun.MemoryOptions{KV: "f32"}})
	require.NoError(t, err)
	defer full.Close()
	small, err := llmrun.Inspect(path, llmrun.Options{})
	require.NoError(t, err)
	defer small.Close()
	require.Less(t, small.KVBytes(1000), full.KVBytes(1000)/3, "8 bits and their scales for 32")
	require.Equal(t, []string{"F32", "Q4_K", "Q6_K"}, keys(full.Info().TensorTypes))
}

func keys[V any](m map[string]V) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// TestGGUFWithoutTokenizer opens a file whose tokenizer is declared as "none".
func TestGGUFWithoutTokenizer(t *testing.T) {
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	path := writeShape(t, shape, "q8_0")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	none := bytes.Replace(data, []byte("gpt2"), []byte("none"), 1)
	require.NotEqual(t, data, none)
	require.NoError(t, os.WriteFile(path, none, 0o600))
	e := open(t, path, llmrun.Options{})
	require.Nil(t, e.Tokenizer())
	require.Len(t, complete(t, newSession(t, e).GenerateIDs(context.Background(), []int32{1, 2}, limit(3))).IDs, 3)
	_, err = llmrun.OpenTokenizer(path, llmrun.Options{})
	require.ErrorIs(t, err, llmrun.ErrNoTokenizer)
}
