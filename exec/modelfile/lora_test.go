package modelfile_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/gguf"
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
		"needs a GGUF model or its pack":       nil,
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
