package llmrun_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

func TestInspect(t *testing.T) {
	i, err := llmrun.Inspect(demoModel, llmrun.Options{})
	require.NoError(t, err)
	defer i.Close()
	info := i.Info()
	opened := demo(t).Info()
	require.Equal(t, opened.MaxContext, opened.Context)
	opened.Context = 0 // a model that is only inspected has no sessions
	require.Equal(t, opened, info)
	want := llmrun.Info{
		Path: demoModel, Format: "safetensors", Family: "llama", Parameters: 14_948_736,
		Layers: 8, Dim: 384, Heads: 6, KVHeads: 2, HeadDim: 64, FFN: 1024, Vocab: 6144, MaxContext: 32768,
		TensorTypes: map[string]int{"BF16": 74}, WeightBytes: 2 * 14_948_736, KV: "f32", KVBytesPerToken: 8 * 2 * 2 * 64 * 4,
		Tokenizer: "BPE", HasChatTemplate: true,
	}
	require.Equal(t, want, info)
	require.Equal(t, int64(1000*8192), i.KVBytes(1000))
	info.TensorTypes["BF16"] = 0
	require.Equal(t, 74, i.Info().TensorTypes["BF16"], "callers get copies")

	tensors := i.Tensors()
	require.Len(t, tensors, 74)
	var bytes int64
	for _, tensor := range tensors {
		bytes += tensor.Bytes
	}
	require.Equal(t, info.WeightBytes, bytes)
	require.Contains(t, tensors, llmrun.TensorInfo{Name: "model.embed_tokens.weight", Type: "BF16", Shape: []int{6144, 384}, Bytes: 2 * 6144 * 384})

	data, err := json.Marshal(info)
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(data, &fields))
	require.Contains(t, fields, "max_context")
	require.NotContains(t, fields, "experts", "what the model does not have")
}

func TestRowsMatchFile(t *testing.T) {
	var embed []float32
	dir := tinyModel(t, func(name string, values []float32) {
		if name == "model.embed_tokens.weight" {
			embed = values
		}
	})
	i, err := llmrun.Inspect(dir, llmrun.Options{})
	require.NoError(t, err)
	defer i.Close()
	rows, err := i.Rows("model.embed_tokens.weight", []int{5, 0, tinyVocab - 1})
	require.NoError(t, err)
	require.Equal(t, [][]float32{embed[5*tinyDim : 6*tinyDim], embed[:tinyDim], embed[(tinyVocab-1)*tinyDim:]}, rows)
	rows, err = i.Rows("model.norm.weight", []int{0})
	require.NoError(t, err)
	require.Len(t, rows[0], tinyDim, "a vector is one row")

	for _, row := range []int{-1, tinyVocab} {
		_, err = i.Rows("model.embed_tokens.weight", []int{0, row})
		require.ErrorIs(t, err, llmrun.ErrOptions)
		require.ErrorContains(t, err, "rows 0 to 31")
	}
	_, err = i.Rows("no.such.tensor", nil)
	require.ErrorIs(t, err, llmrun.ErrOptions)
	require.ErrorContains(t, err, "no.such.tensor")
}

func TestInspectTruncatedFile(t *testing.T) {
	dir := tinyModel(t, nil)
	path := filepath.Join(dir, "model.safetensors")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, info.Size()-4))
	_, err = llmrun.Inspect(dir, llmrun.Options{})
	require.ErrorIs(t, err, llmrun.ErrFormat)
	require.ErrorContains(t, err, "model.safetensors")
}

func TestOpenTokenizer(t *testing.T) {
	for _, path := range []string{demoModel, demoModel + "/tokenizer.json"} {
		tok, err := llmrun.OpenTokenizer(path, llmrun.Options{})
		require.NoError(t, err)
		require.Equal(t, "BPE", tok.Kind())
		require.Equal(t, 6144, tok.VocabSize())
		require.Equal(t, []int32{4972, 15, 950, 4}, testutil.Must(tok.Encode("Hello, world!", llmrun.EncodeOptions{})))
	}
}
