package modeltest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// The sizes of the model that tests break: as small as possible with a distinct shape for each
// tensor.
const (
	TinyDim, TinyFFN, TinyVocab, tinyLayers = 8, 12, 10, 2
	tinyHeads, TinyKV, TinyHead             = 4, 2, 2
)

// TinyTensor is a tensor of the small model: its role and its layer, or -1.
type TinyTensor struct {
	Role  string
	Layer int
	Type  quant.Type
	Shape []int
	Data  []byte
}

// TinyTensors returns the tensors of a small llama.
func TinyTensors() (out []TinyTensor) {
	rng := rand.New(rand.NewPCG(1, 2))
	layer := -1
	add := func(role string, shape ...int) {
		values := make([]float32, modelfile.Elems(shape))
		for i := range values {
			values[i] = rng.Float32() - 0.5
		}
		out = append(out, TinyTensor{role, layer, quant.F32, shape, modelfile.AppendFloats(nil, values)})
	}
	add("token_embd", TinyVocab, TinyDim)
	add("output_norm", TinyDim)
	add("output", TinyVocab, TinyDim)
	for layer = range tinyLayers {
		add("attn_norm", TinyDim)
		add("attn_q", tinyHeads*TinyHead, TinyDim)
		add("attn_k", TinyKV*TinyHead, TinyDim)
		add("attn_v", TinyKV*TinyHead, TinyDim)
		add("attn_output", TinyDim, tinyHeads*TinyHead)
		add("ffn_norm", TinyDim)
		add("ffn_gate", TinyFFN, TinyDim)
		add("ffn_up", TinyFFN, TinyDim)
		add("ffn_down", TinyDim, TinyFFN)
	}
	return out
}

// TinyGGUF returns the small model as a GGUF file.
func TinyGGUF() *GGUF {
	e := &exporter{arch: "llama", config: exportConfig{
		"num_hidden_layers": float64(tinyLayers), "hidden_size": float64(TinyDim), "intermediate_size": float64(TinyFFN),
		"num_attention_heads": float64(tinyHeads), "num_key_value_heads": float64(TinyKV), "max_position_embeddings": 32.0,
		"vocab_size": float64(TinyVocab), "rms_norm_eps": 1e-5, "rope_theta": 1e4,
	}}
	e.Set("general.architecture", "llama")
	e.vocabulary()
	llamaKeys(e)
	for _, r := range TinyTensors() {
		name := r.Role + ".weight"
		if r.Layer >= 0 {
			name = fmt.Sprintf("blk.%d.%s", r.Layer, name)
		}
		e.Tensors = append(e.Tensors, gguf.TensorData{Name: name, Type: r.Type, Shape: r.Shape, Data: r.Data})
	}
	return &e.GGUF
}

// TinyConfig returns the config.json of the small model.
func TinyConfig(t testing.TB, changes Fields) []byte {
	all := Fields{
		"num_hidden_layers": tinyLayers, "hidden_size": TinyDim, "intermediate_size": TinyFFN, "head_dim": TinyHead,
		"num_attention_heads": tinyHeads, "num_key_value_heads": TinyKV, "max_position_embeddings": 32, "vocab_size": TinyVocab,
	}
	maps.Copy(all, changes)
	return ConfigOf(t, "llama", all)
}

// WriteTinyHF writes the small model's safetensors and the given config.json
// into a directory m.
func WriteTinyHF(t testing.TB, config []byte) vfs.FS {
	t.Helper()
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("m"))
	var tensors []safetensors.TensorData
	for _, r := range TinyTensors() {
		tensors = append(tensors, safetensors.TensorData{
			Name: arch.Llama.HFName(r.Role, r.Layer) + ".weight", Type: r.Type, Shape: r.Shape, Data: r.Data,
		})
	}
	require.NoError(t, safetensors.Write(fsys, "m/model.safetensors", tensors))
	WriteFile(t, fsys, "m/config.json", config)
	return fsys
}

// WriteFile writes a file as a whole.
func WriteFile(t testing.TB, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	f, err := fsys.Create(name)
	require.NoError(t, err)
	_, err = f.WriteAt(data, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// RandomTensors returns the small model, widened to hold blocks of every type, with random bytes
// in all matrices with rows of that width. Heads stay narrow, so one matrix keeps its type.
func RandomTensors(t *testing.T, typ quant.Type) *GGUF {
	const wide = 256
	g := TinyGGUF()
	g.Set("llama.embedding_length", uint32(wide))
	g.Set("llama.feed_forward_length", uint32(wide))
	for _, key := range []string{"llama.attention.key_length", "llama.attention.value_length"} {
		g.Set(key, uint32(TinyHead))
	}
	random := rand.New(rand.NewPCG(1, uint64(typ)))
	for i := range g.Tensors {
		d := &g.Tensors[i]
		for j, n := range d.Shape {
			if n == TinyDim && !strings.Contains(d.Name, "attn_q.") || n == TinyFFN || j == len(d.Shape)-1 {
				d.Shape[j] = wide
			}
		}
		if strings.Contains(d.Name, "attn_output") {
			d.Shape = []int{wide, tinyHeads * TinyHead}
		}
		if d.Type = quant.F32; len(d.Shape) == 2 && d.Shape[1] == wide {
			d.Type = typ
		}
		n, fits, err := store.Bytes(d.Type, d.Shape)
		require.NoError(t, err)
		require.True(t, fits)
		d.Data = make([]byte, n)
		for j := range d.Data {
			d.Data[j] = byte(random.Uint32())
			if d.Type == quant.F32 && j%4 == 3 {
				d.Data[j] &^= 0x40 // excludes NaN, which compares unequal to itself
			}
		}
	}
	return g
}

// Fields are some fields of a config.json.
type Fields map[string]any

// ConfigOf returns a small config.json of a family with four layers.
func ConfigOf(t testing.TB, family string, changes Fields) []byte {
	t.Helper()
	all := Fields{
		"model_type": family, "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
		"head_dim": 16, "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 512,
		"rms_norm_eps": 1e-6, "rope_theta": 10000,
	}
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == Absent })
	data, err := json.Marshal(all)
	require.NoError(t, err)
	return data
}

// Absent removes a field.
const Absent = "(absent)"
