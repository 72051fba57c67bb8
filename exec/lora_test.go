package exec

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// TestMergedAdaptersMatchTheReference merges LoRA adapters into their base model and compares
// the logits with weights merged by another implementation.
func TestMergedAdaptersMatchTheReference(t *testing.T) {
	for _, dir := range testutil.Glob(t, "fixtures", "*/lora_*") {
		t.Run(filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir), func(t *testing.T) {
			f, err := modelfile.Open(vfs.OS(), filepath.Dir(dir))
			require.NoError(t, err)
			defer f.Close()
			require.NoError(t, f.Merge(vfs.OS(), dir))
			budget := tiering.New(0)
			m, err := Load(context.Background(), f, Options{Threads: 2, Budget: budget})
			require.NoError(t, err)
			defer func() {
				m.Close()
				require.NoError(t, budget.Check())
			}()
			var ref reference
			testutil.ReadJSON(t, filepath.Join(dir, "reference.json"), &ref)
			ref.check(t, m)
		})
	}
}

func TestMismatchedAdapters(t *testing.T) {
	base := testutil.Shared(t, "fixtures", "llama3")
	f, err := modelfile.Open(vfs.OS(), base)
	require.NoError(t, err)
	defer f.Close()
	err = f.Merge(vfs.OS(), testutil.Shared(t, "fixtures", "llama32", "lora_qv"))
	require.ErrorIs(t, err, arch.ErrModel)
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
