package exec

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// The sizes of the model that tests break: as small as possible with a distinct shape for each
// tensor.
const (
	tinyDim, tinyFFN, tinyVocab, tinyLayers = 8, 12, 10, 2
	tinyHeads, tinyKV, tinyHead             = 4, 2, 2
)

// tinyTensor is a tensor of the small model: its role and its layer, or -1.
type tinyTensor struct {
	role  string
	layer int
	*rows
}

// tinyTensors returns the tensors of a small llama.
func tinyTensors() (out []tinyTensor) {
	rng := rand.New(rand.NewPCG(1, 2))
	layer := -1
	add := func(role string, shape ...int) {
		r := &rows{typ: quant.F32, shape: shape}
		for range modelfile.Elems(shape) {
			r.appendFloat(rng.Float32() - 0.5)
		}
		out = append(out, tinyTensor{role, layer, r})
	}
	add("token_embd", tinyVocab, tinyDim)
	add("output_norm", tinyDim)
	add("output", tinyVocab, tinyDim)
	for layer = range tinyLayers {
		add("attn_norm", tinyDim)
		add("attn_q", tinyHeads*tinyHead, tinyDim)
		add("attn_k", tinyKV*tinyHead, tinyDim)
		add("attn_v", tinyKV*tinyHead, tinyDim)
		add("attn_output", tinyDim, tinyHeads*tinyHead)
		add("ffn_norm", tinyDim)
		add("ffn_gate", tinyFFN, tinyDim)
		add("ffn_up", tinyFFN, tinyDim)
		add("ffn_down", tinyDim, tinyFFN)
	}
	return out
}

// tinyGGUF returns the small model as a GGUF file.
func tinyGGUF() *ggufModel {
	e := &exporter{arch: "llama", config: exportConfig{
		"num_hidden_layers": float64(tinyLayers), "hidden_size": float64(tinyDim), "intermediate_size": float64(tinyFFN),
		"num_attention_heads": float64(tinyHeads), "num_key_value_heads": float64(tinyKV), "max_position_embeddings": 32.0,
		"vocab_size": float64(tinyVocab), "rms_norm_eps": 1e-5, "rope_theta": 1e4,
	}}
	e.set("general.architecture", "llama")
	e.vocabulary()
	llamaKeys(e)
	for _, r := range tinyTensors() {
		name := r.role + ".weight"
		if r.layer >= 0 {
			name = fmt.Sprintf("blk.%d.%s", r.layer, name)
		}
		e.tensors = append(e.tensors, gguf.TensorData{Name: name, Type: r.typ, Shape: r.shape, Data: r.data})
	}
	return &e.ggufModel
}

// tinyConfig returns the config.json of the small model.
func tinyConfig(t testing.TB, changes fields) []byte {
	all := fields{
		"num_hidden_layers": tinyLayers, "hidden_size": tinyDim, "intermediate_size": tinyFFN, "head_dim": tinyHead,
		"num_attention_heads": tinyHeads, "num_key_value_heads": tinyKV, "max_position_embeddings": 32, "vocab_size": tinyVocab,
	}
	maps.Copy(all, changes)
	return configOf(t, "llama", all)
}

// writeTinyHF writes the small model's safetensors and the given config.json
// into a directory m.
func writeTinyHF(t testing.TB, config []byte) vfs.FS {
	t.Helper()
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("m"))
	var tensors []safetensors.TensorData
	for _, r := range tinyTensors() {
		tensors = append(tensors, safetensors.TensorData{
			Name: arch.Llama.HFName(r.role, r.layer) + ".weight", Type: r.typ, Shape: r.shape, Data: r.data,
		})
	}
	require.NoError(t, safetensors.Write(fsys, "m/model.safetensors", tensors))
	writeFile(t, fsys, "m/config.json", config)
	return fsys
}

func writeFile(t testing.TB, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	f, err := fsys.Create(name)
	require.NoError(t, err)
	_, err = f.WriteAt(data, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
