package exec

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// adapted are the matrices that the adapters of TestAdaptersOfFamilies2026 change; those that predict further tokens are no part
// of the network.
var (
	adapted  = regexp.MustCompile(`layers\.\d+\..*(proj|proj_with_mqa|_qkv|_[abz]|w[123])\.weight$`)
	excluded = regexp.MustCompile(`^mtp|layers\.\d+\.eh_proj|altup`)
)

// adapterForAll adds an adapter of rank 2 for all matrices of a checkpoint to a file system, in a, and returns the
// checkpoint with the changes in its weights.
func adapterForAll(t *testing.T, src store.Source, tensors map[string]modeltest.RawTensor, fsys vfs.FS) map[string]modeltest.RawTensor {
	const rank = 2
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []float32 {
		values := make([]float32, n)
		for i := range values {
			values[i] = 0.1 * float32(rng.NormFloat64())
		}
		return values
	}
	floats := func(values []float32, shape ...int) modeltest.RawTensor {
		return modeltest.RawTensor{Dtype: "F32", Shape: shape, Data: modelfile.AppendFloats(nil, values)}
	}
	changed, factors := maps.Clone(tensors), map[string]modeltest.RawTensor{}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		shape := tensors[name].Shape
		if len(shape) != 2 || !adapted.MatchString(name) || excluded.MatchString(name) {
			continue
		}
		rows, cols := shape[0], shape[1]
		a, b, w := random(rank*cols), random(rows*rank), modeltest.WholeTensor(t, src, name)
		for i := range w {
			for k := range rank {
				w[i] += b[i/cols*rank+k] * a[k*cols+i%cols]
			}
		}
		changed[name] = floats(w, rows, cols)
		module := "base_model.model." + strings.TrimSuffix(name, ".weight")
		factors[module+".lora_A.weight"], factors[module+".lora_B.weight"] = floats(a, rank, cols), floats(b, rows, rank)
	}
	require.NotEmpty(t, factors)
	data, err := vfs.ReadFile(modeltest.WriteRaw(t, nil, factors), "m/model.safetensors", 1<<30)
	require.NoError(t, err)
	config, err := json.Marshal(modeltest.Fields{"peft_type": "LORA", "r": rank, "lora_alpha": rank})
	require.NoError(t, err)
	require.NoError(t, fsys.MkdirAll("a"))
	modeltest.WriteFile(t, fsys, path.Join("a", "adapter_model.safetensors"), data)
	modeltest.WriteFile(t, fsys, path.Join("a", "adapter_config.json"), config)
	return changed
}

// TestAdaptersOfFamilies2026: a merged adapter for all matrices, among them those that are cut into several, computes the bits of
// a checkpoint with its changes, and an adapter beside the weights, with other chunks and threads to the last bit, nearly the same.
func TestAdaptersOfFamilies2026(t *testing.T) {
	for _, fixture := range []string{
		"qwen3_5", // the rows of queries and gates take turns
		"deepseek_v2", "glm4_moe_lite", "gemma4", "gemma3n", "falcon_h1", "lfm2_moe",
	} {
		t.Run(fixture, func(t *testing.T) {
			dir := testutil.Shared(t, "fixtures2026", fixture)
			config, tensors := modeltest.ReadRaw(t, dir)
			src, err := safetensors.Open(vfs.OS(), dir)
			require.NoError(t, err)
			defer src.Close()
			fsys := modeltest.WriteRaw(t, config, tensors)
			changed := adapterForAll(t, src, tensors, fsys)
			exact := Options{Threads: 2, Exact: true}
			ids := longPrompt(512, 30, 3)
			want := allLogits(t, loadModel(t, modeltest.WriteRaw(t, config, changed), "m", exact), ids)

			read := func(add func(f *modelfile.Files) error, exact Options) ([][]float32, error) {
				f, err := modelfile.Open(fsys, "m")
				require.NoError(t, err)
				defer f.Close()
				if err := add(f); err != nil {
					return nil, err
				}
				m, err := Load(t.Context(), f, exact)
				if err != nil {
					return nil, err
				}
				defer m.Close()
				return allLogits(t, m, ids), nil
			}
			got, err := read(func(f *modelfile.Files) error { return f.Merge(fsys, "a") }, exact)
			require.NoError(t, err)
			require.Equal(t, want, got)
			got, err = read(func(f *modelfile.Files) error { return f.KeepBeside(fsys, "a") }, exact)
			require.NoError(t, err)
			require.NotEqual(t, want, got, "the adapter was merged")
			again, err := read(func(f *modelfile.Files) error { return f.KeepBeside(fsys, "a") }, Options{Threads: 3, Chunk: 7, Exact: true})
			require.NoError(t, err)
			require.Equal(t, got, again)
			for i := range want {
				for j, w := range want[i] {
					require.Less(t, math.Abs(float64(w-got[i][j])), 2e-3, "position %d", i)
				}
			}
		})
	}
}
