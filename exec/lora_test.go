package exec

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// TestAdaptersMatchTheReference merges LoRA adapters into their base model, or keeps them beside
// it, and compares the logits with weights merged by another implementation.
func TestAdaptersMatchTheReference(t *testing.T) {
	for way, add := range map[string]func(*modelfile.Files, vfs.FS, string) error{"merged": (*modelfile.Files).Merge, "beside": (*modelfile.Files).KeepBeside} {
		for _, dir := range testutil.Glob(t, "fixtures", "*/lora_*") {
			name := way + "/" + filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir)
			t.Run(name, func(t *testing.T) {
				checkAdapter(t, filepath.Dir(dir), dir, add)
			})
			t.Run(name+" on a pack", func(t *testing.T) {
				source, err := modelfile.Open(vfs.OS(), filepath.Dir(dir))
				require.NoError(t, err)
				defer source.Close()
				path := filepath.Join(t.TempDir(), "m.pack")
				require.NoError(t, weights.Import(context.Background(), source, vfs.OS(), path, weights.ImportOptions{}))
				checkAdapter(t, path, dir, add)
			})
		}
	}
}

// checkAdapter adds an adapter to a model and compares the logits with the adapter's reference.
func checkAdapter(t *testing.T, path, adapter string, add func(*modelfile.Files, vfs.FS, string) error) {
	f, err := modelfile.Open(vfs.OS(), path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, add(f, vfs.OS(), adapter))
	budget := tiering.New(0)
	m, err := Load(context.Background(), f, Options{Threads: 2, Budget: budget})
	require.NoError(t, err)
	defer func() {
		m.Close()
		require.NoError(t, budget.Check())
	}()
	var ref reference
	testutil.ReadJSON(t, filepath.Join(adapter, "reference.json"), &ref)
	ref.check(t, m)
}

// TestAdapterScales compares an adapter with a scale behind its path with one whose lora_alpha is that times as
// large, merged and beside the weights, alone and after another adapter.
func TestAdapterScales(t *testing.T) {
	adapter, scaled := testutil.Shared(t, "fixtures", "llama32", "lora_qv"), t.TempDir()
	var config map[string]any
	testutil.ReadJSON(t, filepath.Join(adapter, "adapter_config.json"), &config)
	config["lora_alpha"] = config["lora_alpha"].(float64) * -0.5
	text, err := json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(scaled, "adapter_config.json"), text, 0o600))
	factors, err := os.ReadFile(filepath.Join(adapter, "adapter_model.safetensors"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(scaled, "adapter_model.safetensors"), factors, 0o600))

	logits := func(add func(*modelfile.Files, vfs.FS, string) error, adapters ...string) [][]float32 {
		f, err := modelfile.Open(vfs.OS(), testutil.Shared(t, "fixtures", "llama32"))
		require.NoError(t, err)
		defer f.Close()
		for _, a := range adapters {
			require.NoError(t, add(f, vfs.OS(), a))
		}
		m, err := Load(t.Context(), f, Options{Threads: 1})
		require.NoError(t, err)
		defer m.Close()
		return allLogits(t, m, []int32{1, 2, 3, 4})
	}
	for _, add := range []func(*modelfile.Files, vfs.FS, string) error{(*modelfile.Files).Merge, (*modelfile.Files).KeepBeside} {
		require.Equal(t, logits(add, scaled), logits(add, adapter+":-0.5"))
		require.Equal(t, logits(add, adapter, scaled), logits(add, adapter, adapter+":-0.5"))
		require.NotEqual(t, logits(add, adapter), logits(add, adapter+":-0.5"))
	}
	f, err := modelfile.Open(vfs.OS(), testutil.Shared(t, "fixtures", "llama32"))
	require.NoError(t, err)
	defer f.Close()
	require.ErrorContains(t, f.Merge(vfs.OS(), adapter+":Inf"), "the scale behind the colon is not a finite number")
	identities := map[[32]byte]bool{}
	for _, name := range []string{adapter, adapter + ":1", adapter + ":2", adapter + ":-2"} {
		id, err := modelfile.AdapterIdentity(t.Context(), nil, vfs.OS(), name)
		require.NoError(t, err)
		identities[id] = true
	}
	require.Len(t, identities, 3, "keys and values know the scale")
}

// TestGGUFAdapters compares adapters in GGUF files with models whose weights contain their changes: merged, beside
// the weights, and on a pack of the model. llama3 has rotated rows in GGUF.
func TestGGUFAdapters(t *testing.T) {
	for _, name := range []string{"llama3", "qwen2"} {
		t.Run(name, func(t *testing.T) {
			model := modeltest.ExportFixture(t, testutil.Shared(t, "fixtures", name))
			adapter, changed := modeltest.GGUFAdapter(model, -1.5)
			ids := []int32{1, 2, 3, 4, 5, 6}
			want := allLogits(t, loadModel(t, changed.Write(t), "m.gguf", Options{Threads: 2}), ids)
			fsys := model.Write(t)
			require.NoError(t, gguf.Write(fsys, "lora.gguf", adapter.Keys, adapter.Tensors))
			without := allLogits(t, loadModel(t, fsys, "m.gguf", Options{Threads: 2}), ids)
			changes := 0.0
			for i, l := range want[5] {
				changes = max(changes, float64(l-without[5][i]))
			}
			require.Greater(t, changes, 0.05, "the adapter changes nothing")
			plain, err := modelfile.Open(fsys, "m.gguf")
			require.NoError(t, err)
			require.NoError(t, weights.Import(t.Context(), plain, fsys, "m.pack", weights.ImportOptions{}))
			require.NoError(t, plain.Close())
			for _, path := range []string{"m.gguf", "m.pack"} {
				for way, add := range map[string]func(*modelfile.Files, vfs.FS, string) error{"merged": (*modelfile.Files).Merge, "beside": (*modelfile.Files).KeepBeside} {
					f, err := modelfile.Open(fsys, path)
					require.NoError(t, err)
					defer f.Close()
					require.NoError(t, add(f, fsys, "lora.gguf:-1.5"), "%s %s", path, way)
					matrices, err := weights.AllMatrices(f)
					require.NoError(t, err)
					require.True(t, f.PackKeepsBeside(matrices))
					requireClose(t, allLogits(t, loadPart(t, f, Options{Threads: 2}), ids), want, 1e-3)
				}
			}
		})
	}
}

// TestAdaptersInTheOtherFormat adds peft's adapters to GGUF files and their packs, and adapters in GGUF files to safetensors models and
// theirs. The rows of queries and keys have another order there, or are those of a fused tensor.
func TestAdaptersInTheOtherFormat(t *testing.T) {
	ways := map[string]func(*modelfile.Files, vfs.FS, string) error{"merged": (*modelfile.Files).Merge, "beside": (*modelfile.Files).KeepBeside}
	with := func(t *testing.T, fsys vfs.FS, path string, add func(*modelfile.Files, vfs.FS, string) error, from vfs.FS, adapter string) *Model {
		f, err := modelfile.Open(fsys, path)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		require.NoError(t, add(f, from, adapter))
		return loadPart(t, f, Options{Threads: 2})
	}
	for _, dir := range testutil.Glob(t, "fixtures", "*/lora_*") {
		t.Run("peft/"+filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir), func(t *testing.T) {
			fsys := modeltest.ExportFixture(t, filepath.Dir(dir)).Write(t)
			importTo(t, fsys, "m.gguf")
			var ref reference
			testutil.ReadJSON(t, filepath.Join(dir, "reference.json"), &ref)
			for _, path := range []string{"m.gguf", "m.pack"} {
				for _, add := range ways {
					ref.check(t, with(t, fsys, path, add, vfs.OS(), dir))
				}
			}
		})
	}
	for _, name := range []string{"llama3", "mistral", "qwen2", "phi3", "internlm2", "gpt_neox", "gemma"} {
		t.Run("gguf/"+name, func(t *testing.T) {
			dir := testutil.Shared(t, "fixtures", name)
			model := modeltest.ExportFixture(t, dir)
			adapter, changed := modeltest.GGUFAdapter(model, -1.5)
			adapter.Set("general.architecture", keyOf(model, "general.architecture"))
			ids := []int32{1, 2, 3, 4, 5, 6}
			want := allLogits(t, loadModel(t, changed.Write(t), "m.gguf", Options{Threads: 2}), ids)
			fsys := importAs(t, dir, "")
			require.NoError(t, gguf.Write(fsys, "lora.gguf", adapter.Keys, adapter.Tensors))
			for _, add := range ways {
				requireClose(t, allLogits(t, with(t, vfs.OS(), dir, add, fsys, "lora.gguf:-1.5"), ids), want, 1e-3)
				requireClose(t, allLogits(t, with(t, fsys, "m.pack", add, fsys, "lora.gguf:-1.5"), ids), want, 1e-3)
			}
		})
	}
}

// keyOf returns a value of a GGUF file.
func keyOf(g *modeltest.GGUF, key string) any {
	for _, kv := range g.Keys {
		if kv.Key == key {
			return kv.Value
		}
	}
	return nil
}

// importTo imports a model of a file system as m.pack beside it.
func importTo(t *testing.T, fsys vfs.FS, path string) {
	t.Helper()
	f, err := modelfile.Open(fsys, path)
	require.NoError(t, err)
	require.NoError(t, weights.Import(t.Context(), f, fsys, "m.pack", weights.ImportOptions{}))
	require.NoError(t, f.Close())
}
