package modelfile_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

func TestMismatchedAdapters(t *testing.T) {
	base := testutil.Shared(t, "fixtures", "llama3")
	f, err := modelfile.Open(vfs.OS(), base)
	require.NoError(t, err)
	defer f.Close()
	err = f.Merge(vfs.OS(), testutil.Shared(t, "fixtures", "llama32", "lora_qv"))
	require.ErrorIs(t, err, modelfile.ErrAdapter)
	require.NotErrorIs(t, err, arch.ErrModel)
	require.ErrorContains(t, err, "do not fit model.layers.0.self_attn.q_proj.weight")
	require.Error(t, f.Merge(vfs.OS(), filepath.Join(base, "nowhere")))
}

func TestUnsupportedAdapterSettings(t *testing.T) {
	for field, c := range map[string]modelfile.LoraConfig{
		"use_dora": {PeftType: "LORA", DoRA: true}, "peft_type": {PeftType: "IA3"}, "bias": {PeftType: "LORA", Bias: "all"},
		"modules_to_save": {PeftType: "LORA", ModulesToSave: []string{"lm_head"}}, "fan_in_fan_out": {PeftType: "LORA", FanInFanOut: true},
	} {
		require.ErrorContains(t, c.Check("x"), field)
	}
	// They change the layers, or the tokens, that the factors are for.
	for _, field := range []string{`"layer_replication":[[0,4],[2,5]]`, `"alora_invocation_tokens":[1,2]`} {
		var c modelfile.LoraConfig
		require.NoError(t, json.Unmarshal([]byte(`{"peft_type":"LORA",`+field+`}`), &c))
		err := c.Check("x")
		require.ErrorIs(t, err, arch.ErrUnsupported)
		name, _, _ := strings.Cut(strings.Trim(field, `"`), `"`)
		require.ErrorContains(t, err, name)
	}
	for _, field := range []string{`"layer_replication":null`, `"alora_invocation_tokens":null`} {
		var c modelfile.LoraConfig
		require.NoError(t, json.Unmarshal([]byte(`{"peft_type":"LORA",`+field+`}`), &c))
		require.NoError(t, c.Check("x"))
	}
	require.ErrorIs(t, (&modelfile.LoraConfig{PeftType: "LORA"}).Check("x"), arch.ErrModel)
}

func TestScaleOfAnAdapter(t *testing.T) {
	c := modelfile.LoraConfig{Alpha: 16, AlphaPattern: map[string]float64{"q_proj": 4, `layers\.1\.mlp\.up_proj`: 2}}
	require.Equal(t, float32(4), c.Scale("model.layers.0.self_attn.k_proj", 4))
	require.Equal(t, float32(1), c.Scale("model.layers.0.self_attn.q_proj", 4))
	require.Equal(t, float32(0.5), c.Scale("model.layers.1.mlp.up_proj", 4))
	require.Equal(t, float32(4), c.Scale("model.layers.0.mlp.up_proj", 4))
	c.RSLoRA = true
	require.Equal(t, float32(8), c.Scale("x", 4))
}

// TestAdapterConfigFollowsPeft reads configurations: the first pattern that matches counts, fields that are missing
// have peft's values, and an expression that Go does not know is refused.
func TestAdapterConfigFollowsPeft(t *testing.T) {
	read := func(fields string) (c modelfile.LoraConfig) {
		require.NoError(t, json.Unmarshal([]byte(`{"peft_type":"LORA"`+fields+`}`), &c))
		return c
	}
	for _, order := range []string{`"layers.0.self_attn.q_proj":32,"z.*":2,"q_proj":16`, `"q_proj":32,"layers.0.self_attn.q_proj":16`} {
		for range 20 {
			c := read(`,"r":8,"lora_alpha":8,"alpha_pattern":{` + order + `}`)
			require.NoError(t, c.Check("x"))
			require.Equal(t, float32(4), c.Scale("model.layers.0.self_attn.q_proj", 8))
		}
	}
	c := read("")
	require.NoError(t, c.Check("x"))
	require.Equal(t, float32(1), c.Scale("q_proj", 8))
	c = read(`,"alpha_pattern":{"(?!.*mlp).*q_proj":32}`)
	require.ErrorIs(t, c.Check("x"), arch.ErrUnsupported)
}

// TestAdapterOfATiedHeadIsRefused adds an adapter of the output matrix to a model whose file has one although its
// configuration says that the embedding takes its place.
func TestAdapterOfATiedHeadIsRefused(t *testing.T) {
	fsys := modeltest.WriteTinyHF(t, modeltest.TinyConfig(t, modeltest.Fields{"tie_word_embeddings": true}))
	require.NoError(t, fsys.MkdirAll("a"))
	config, err := fsys.Create("a/adapter_config.json")
	require.NoError(t, err)
	_, err = config.WriteAt([]byte(`{"peft_type":"LORA","r":1,"lora_alpha":1}`), 0)
	require.NoError(t, err)
	require.NoError(t, config.Close())
	f, err := modelfile.Open(fsys, "m")
	require.NoError(t, err)
	defer f.Close()
	head, ok := f.Source.Tensor("lm_head.weight")
	require.True(t, ok)
	factor := func(name string, rows, cols int) safetensors.TensorData {
		return safetensors.TensorData{Name: "base_model.model.lm_head." + name + ".weight", Type: quant.F32, Shape: []int{rows, cols}, Data: make([]byte, 4*rows*cols)}
	}
	require.NoError(t, safetensors.Write(fsys, "a/adapter_model.safetensors", []safetensors.TensorData{
		factor("lora_A", 1, head.Cols()), factor("lora_B", head.Rows(), 1),
	}))
	err = f.Merge(fsys, "a")
	require.ErrorIs(t, err, arch.ErrUnsupported)
	require.ErrorContains(t, err, "uses its embedding")
	require.ErrorContains(t, f.KeepBeside(fsys, "a"), "uses its embedding")
}

// TestRefusedGGUFAdapters checks the errors of files that are no adapter of the model.
func TestRefusedGGUFAdapters(t *testing.T) {
	model := modeltest.ExportFixture(t, testutil.Shared(t, "fixtures", "llama3"))
	for message, change := range map[string]func(a *modeltest.GGUF){
		`general.type is "model"`:                 func(a *modeltest.GGUF) { a.Set("general.type", "model") },
		`adapter.type is "control_vector"`:        func(a *modeltest.GGUF) { a.Set("adapter.type", "control_vector") },
		`the adapter is for architecture "qwen3"`: func(a *modeltest.GGUF) { a.Set("general.architecture", "qwen3") },
		"lora_b is missing":                       func(a *modeltest.GGUF) { a.Tensors = a.Tensors[:1] },
		"x.weight, which is not a LoRA factor":    func(a *modeltest.GGUF) { a.Tensors[0].Name = "x.weight" },
		"the model has no tensor blk.99.x.weight": func(a *modeltest.GGUF) {
			a.Tensors[0].Name, a.Tensors[1].Name = "blk.99.x.weight.lora_a", "blk.99.x.weight.lora_b"
		},
		"the adapter contains no LoRA factors": func(a *modeltest.GGUF) { a.Tensors = nil },
		`for architecture "", which is not`:    nil,
	} {
		adapter, _ := modeltest.GGUFAdapter(model, 1)
		fsys, path := model.Write(t), "m.gguf"
		if change != nil {
			change(adapter)
		}
		require.NoError(t, gguf.Write(fsys, "lora.gguf", adapter.Keys, adapter.Tensors))
		source := fsys
		if change == nil {
			source, path = vfs.OS(), testutil.Shared(t, "fixtures", "llama3")
		}
		f, err := modelfile.Open(source, path)
		require.NoError(t, err)
		err = f.KeepBeside(fsys, "lora.gguf")
		require.ErrorContains(t, err, message)
		require.NoError(t, f.Close())
	}
}
