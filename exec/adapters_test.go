package exec

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// randomAdapter writes an adapter of random factors for the tensors of f whose names end in one of
// the modules, and returns its file system. The directory is "lora".
func randomAdapter(t *testing.T, f *modelfile.Files, modules ...string) vfs.FS {
	t.Helper()
	fsys := vfs.NewMem()
	writeAdapter(t, fsys, "lora", f, adapterKind{rank: 3, seed: 6, store: quant.F32}, modules...)
	return fsys
}

// adapterKind is what random adapters differ in.
type adapterKind struct {
	rank  int
	seed  uint64
	store quant.Type
}

// writeAdapter writes the adapter of randomAdapter to a directory.
func writeAdapter(t *testing.T, fsys vfs.FS, dir string, f *modelfile.Files, kind adapterKind, modules ...string) {
	t.Helper()
	rank, rng := kind.rank, rand.New(rand.NewPCG(5, kind.seed))
	var tensors []safetensors.TensorData
	add := func(name string, rows, cols int) {
		values := make([]float32, rows*cols)
		for i := range values {
			values[i] = 0.1 * float32(rng.NormFloat64())
		}
		tensors = append(tensors, safetensors.TensorData{Name: name, Type: kind.store, Shape: []int{rows, cols}, Data: stored(kind.store, values)})
	}
	for _, tensor := range f.Source.Tensors() {
		name, isWeight := strings.CutSuffix(tensor.Name, ".weight")
		for _, m := range modules {
			if isWeight && strings.HasSuffix(name, m) {
				add("base_model.model."+name+".lora_A.weight", rank, tensor.Cols())
				add("base_model.model."+name+".lora_B.weight", tensor.Rows(), rank)
			}
		}
	}
	require.NotEmpty(t, tensors)
	require.NoError(t, fsys.MkdirAll(dir))
	modeltest.WriteFile(t, fsys, dir+"/adapter_config.json", fmt.Appendf(nil, `{"peft_type": "LORA", "r": %d, "lora_alpha": %d}`, rank, 2*rank))
	require.NoError(t, safetensors.Write(fsys, dir+"/adapter_model.safetensors", tensors))
}

// stored returns values in a type of 32 or 16 bits.
func stored(t quant.Type, values []float32) []byte {
	if t == quant.F32 {
		return modelfile.AppendFloats(nil, values)
	}
	data := make([]byte, 2*len(values))
	quant.RoundF16(data, values)
	return data
}

// besideModels are models and the modules that an adapter beside their weights changes.
var besideModels = map[string][]string{
	"llama3":    {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
	"qwen2_moe": {"q_proj", "experts.1.gate_proj", "experts.1.up_proj", "experts.2.down_proj", "shared_expert.up_proj"},
	"phi3":      {"qkv_proj", "gate_up_proj"},
	"internlm2": {"wqkv", "wo", "w1"},
	"gpt_neox":  {"query_key_value", "dense_4h_to_h"},
	"lfm2":      {"in_proj", "out_proj"},
}

// withAdapter opens a fixture and adds the adapter of besideModels.
func withAdapter(t *testing.T, name string, add func(*modelfile.Files, vfs.FS, string) error) *modelfile.Files {
	f, err := modelfile.Open(vfs.OS(), modeltest.Fixture(t, name))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	require.NoError(t, add(f, randomAdapter(t, f, besideModels[name]...), "lora"))
	return f
}

// TestAdaptersBesideTheWeights compares adapters beside the weights with merged ones, and with
// themselves for other threads and chunks, and streamed weights, to the last bit. The weights are
// floats, or quantized.
func TestAdaptersBesideTheWeights(t *testing.T) {
	for name := range besideModels {
		t.Run(name, func(t *testing.T) {
			f := withAdapter(t, name, (*modelfile.Files).KeepBeside)
			whole := loadPart(t, f, Options{Threads: 2, Chunk: 64})
			ids := longPrompt(whole.Spec.Vocab, 40, 7)
			want := allLogits(t, whole, ids)
			merged := loadPart(t, withAdapter(t, name, (*modelfile.Files).Merge), Options{Threads: 2})
			rounded := allLogits(t, merged, ids)
			requireClose(t, rounded, want, 1e-4)
			require.NotEqual(t, rounded, want, "the adapter was merged")
			sameBesideEverywhere(t, f, ids, want)
			if whole.Spec.Context > 200 {
				requireNoAllocs(t, whole)
			}

			require.NoError(t, f.Quantize("q8", nil))
			want = allLogits(t, loadPart(t, f, Options{Threads: 2, Chunk: 64}), ids)
			sameBesideEverywhere(t, f, ids, want)
		})
	}
}

// sameBesideEverywhere checks that the logits depend neither on threads and chunks nor on where
// the weights are.
func sameBesideEverywhere(t *testing.T, f *modelfile.Files, ids []int32, want [][]float32) {
	t.Helper()
	require.Equal(t, want, allLogits(t, loadPart(t, f, Options{Threads: 3, Chunk: 5}), ids))
	rng := rand.New(rand.NewPCG(9, 1))
	for range 2 {
		o := Options{Threads: 2, Chunk: 17, Plan: partPlan(rng, packSpec(t, f))}
		require.Equal(t, want, allLogits(t, loadPart(t, f, o), ids))
	}
}

// TestAdaptersThatCannotBeBeside refuses adapters of tensors that are not a matrix of a layer.
func TestAdaptersThatCannotBeBeside(t *testing.T) {
	f, err := modelfile.Open(vfs.OS(), modeltest.Fixture(t, "llama3"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.KeepBeside(randomAdapter(t, f, "lm_head"), "lora"))
	_, err = Load(t.Context(), f, Options{Threads: 1})
	require.ErrorIs(t, err, arch.ErrUnsupported)
	require.ErrorContains(t, err, "lm_head")
	require.ErrorContains(t, err, "merge")
}

// TestAdaptersOfFusedTensorsOnPacks adds an adapter to a model and to its pack, which has the matrices of fused tensors one by one:
// the changes are the same, beside the weights and merged. A pack that lacks a tensor of the adapter is not looked for.
func TestAdaptersOfFusedTensorsOnPacks(t *testing.T) {
	for name, taken := range map[string]bool{"llama3": true, "phi3": true, "internlm2": true, "gpt_neox": true, "lfm2": true} {
		t.Run(name, func(t *testing.T) {
			f := withAdapter(t, name, (*modelfile.Files).KeepBeside)
			adapter := randomAdapter(t, f, besideModels[name]...)
			matrices, err := weights.AllMatrices(f)
			require.NoError(t, err)
			require.Equal(t, taken, f.PackKeepsBeside(matrices))
			fsys := importAs(t, modeltest.Fixture(t, name), "")
			var ids []int32
			for way, add := range map[string]func(*modelfile.Files, vfs.FS, string) error{"beside": (*modelfile.Files).KeepBeside, "merged": (*modelfile.Files).Merge} {
				whole := loadPart(t, withAdapter(t, name, add), Options{Threads: 2})
				ids = longPrompt(whole.Spec.Vocab, 20, 7)
				pack, err := modelfile.Open(fsys, "m.pack")
				require.NoError(t, err)
				defer pack.Close()
				require.NoError(t, add(pack, adapter, "lora"), way)
				requireClose(t, allLogits(t, loadPart(t, pack, Options{Threads: 2}), ids), allLogits(t, whole, ids), 1e-4)
			}
		})
	}
}
