package exec

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/vfs"
)

// ggufAdapter is an adapter of random factors for a model, as the keys and tensors of a GGUF file, and the model
// with the changes of the adapter in its weights.
func ggufAdapter(model *ggufModel, scale float32) (adapter, changed *ggufModel) {
	const rank = 2
	rng := rand.New(rand.NewPCG(8, 9))
	adapter = &ggufModel{}
	adapter.set("general.type", "adapter")
	adapter.set("adapter.type", "lora")
	adapter.set("adapter.lora.alpha", float32(rank)/2) // the adapter's own scale is a half
	changed = &ggufModel{keys: model.keys}
	factor := func(name string, rows, cols int) []float32 {
		values := make([]float32, rows*cols)
		for i := range values {
			values[i] = 0.2 * float32(rng.NormFloat64())
		}
		adapter.tensors = append(adapter.tensors, gguf.TensorData{Name: name, Type: quant.F32, Shape: []int{rows, cols}, Data: modelfile.AppendFloats(nil, values)})
		return values
	}
	for _, tensor := range model.tensors {
		if strings.HasPrefix(tensor.Name, "blk.") && len(tensor.Shape) == 2 {
			rows, cols := tensor.Shape[0], tensor.Shape[1]
			a, b := factor(tensor.Name+".lora_a", rank, cols), factor(tensor.Name+".lora_b", rows, rank)
			values := make([]float32, rows*cols)
			quant.DequantRow(tensor.Type, values, tensor.Data)
			for i := range values {
				for r := range rank {
					values[i] += scale / 2 * b[i/cols*rank+r] * a[r*cols+i%cols]
				}
			}
			tensor.Type, tensor.Data = quant.F32, modelfile.AppendFloats(nil, values)
		}
		changed.tensors = append(changed.tensors, tensor)
	}
	return adapter, changed
}

// TestGGUFAdapters compares adapters in GGUF files with models whose weights contain their changes: merged, beside
// the weights, and on a pack of the model. llama3 has rotated rows in GGUF.
func TestGGUFAdapters(t *testing.T) {
	for _, name := range []string{"llama3", "qwen2"} {
		t.Run(name, func(t *testing.T) {
			model := exportFixture(t, testutil.Shared(t, "fixtures", name))
			adapter, changed := ggufAdapter(model, -1.5)
			ids := []int32{1, 2, 3, 4, 5, 6}
			want := allLogits(t, loadModel(t, changed.write(t), "m.gguf", Options{Threads: 2}), ids)
			fsys := model.write(t)
			require.NoError(t, gguf.Write(fsys, "lora.gguf", adapter.keys, adapter.tensors))
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

// TestRefusedGGUFAdapters checks the errors of files that are no adapter of the model.
func TestRefusedGGUFAdapters(t *testing.T) {
	model := exportFixture(t, testutil.Shared(t, "fixtures", "llama3"))
	for message, change := range map[string]func(a *ggufModel){
		`general.type is "model"`:                 func(a *ggufModel) { a.set("general.type", "model") },
		`adapter.type is "control_vector"`:        func(a *ggufModel) { a.set("adapter.type", "control_vector") },
		`the adapter is for architecture "qwen3"`: func(a *ggufModel) { a.set("general.architecture", "qwen3") },
		"lora_b is missing":                       func(a *ggufModel) { a.tensors = a.tensors[:1] },
		"x.weight, which is not a LoRA factor":    func(a *ggufModel) { a.tensors[0].Name = "x.weight" },
		"the model has no tensor blk.99.x.weight": func(a *ggufModel) {
			a.tensors[0].Name, a.tensors[1].Name = "blk.99.x.weight.lora_a", "blk.99.x.weight.lora_b"
		},
		"the adapter contains no LoRA factors": func(a *ggufModel) { a.tensors = nil },
		"needs a GGUF model or its pack":       nil,
	} {
		adapter, _ := ggufAdapter(model, 1)
		fsys, path := model.write(t), "m.gguf"
		if change != nil {
			change(adapter)
		}
		require.NoError(t, gguf.Write(fsys, "lora.gguf", adapter.keys, adapter.tensors))
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
