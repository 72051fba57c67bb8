package exec

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// families2026 are the fixtures of newer families. The repository holds their checkpoints; GGUF
// files that it does not hold are tested where they lie beside the checkout.
var families2026 = []string{
	"lfm2_moe", "qwen3_5", "qwen3_5_moe", "qwen3_next", "mamba2", "granitemoehybrid", "granite4_dense", "falcon_h1", "nemotron_h",
	"nemotron_h_moe",
	"ministral3", "exaone4", "olmo3", "hunyuan_v1_dense", "ernie4_5", "seed_oss", "cohere2", "glm4", "phi4_mini",
	"gpt_oss", "gemma3n", "gemma4", "gemma4_moe", "deepseek_v2", "deepseek_v3", "glm4_moe_lite",
}

// eachFamily2026 runs a test with each newer fixture: its directory, and the paths of its
// checkpoint and of its GGUF file, if there is one.
func eachFamily2026(t *testing.T, test func(t *testing.T, dir string, models []string)) {
	for _, name := range families2026 {
		t.Run(name, func(t *testing.T) {
			dir := testutil.Shared(t, "fixtures2026", name)
			models := []string{dir}
			if file, found := testutil.Find(t, "fixtures2026", name, "model.gguf"); found {
				models = append(models, file)
			}
			test(t, dir, models)
		})
	}
}

// TestFamilies2026MatchTheReference compares checkpoints and GGUF files as the reference converter
// writes them with logits of another implementation.
func TestFamilies2026MatchTheReference(t *testing.T) {
	eachFamily2026(t, func(t *testing.T, dir string, models []string) {
		var ref reference
		testutil.ReadJSON(t, filepath.Join(dir, "reference.json"), &ref)
		for _, path := range models {
			t.Run(filepath.Base(path), func(t *testing.T) {
				ref.check(t, loadModel(t, vfs.OS(), path, Options{Threads: 2, Chunk: 16, Exact: true}))
			})
		}
	})
}

// TestFamilies2026AreInvariant reads one text at once, token by token, in chunks of odd sizes and in
// calls of random sizes, with each KV format in turn: logits must be equal to the last bit.
func TestFamilies2026AreInvariant(t *testing.T) {
	formats := kv.Formats()
	turn := 0
	eachFamily2026(t, func(t *testing.T, dir string, _ []string) {
		const length = 150
		open := func(threads, chunk int, format kv.Format) *Model {
			return loadModel(t, vfs.OS(), dir, Options{Threads: threads, Chunk: chunk, KV: format})
		}
		for range testutil.Effort(1, len(formats)) {
			format := formats[turn%len(formats)]
			turn++
			whole := open(1, length, format)
			ids := longPrompt(whole.Spec.Vocab, length, 7)
			want := allLogits(t, whole, ids)
			require.Equal(t, want, allLogits(t, open(3, 1, format), ids), "%s, token by token", format)
			require.Equal(t, want, allLogits(t, open(2, 33, format), ids), "%s, chunks", format)
			require.Equal(t, want, inSteps(t, whole, ids), "%s, several calls", format)
		}
	})
}

// TestFamilies2026TruncateAndDecode truncates a sequence and extends it again, and decodes without
// allocating.
func TestFamilies2026TruncateAndDecode(t *testing.T) {
	eachFamily2026(t, func(t *testing.T, dir string, _ []string) {
		m := loadModel(t, vfs.OS(), dir, Options{Threads: 2})
		ids := longPrompt(m.Spec.Vocab, 140, 9)
		other := append(append([]int32(nil), ids[:70]...), longPrompt(m.Spec.Vocab, 30, 10)...)
		want := allLogits(t, m, other)
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		defer s.Close()
		extendAll(t, m, s, ids)
		kept := s.Truncate(70)
		got := extendAll(t, m, s, other[kept:])
		require.Equal(t, want[len(want)-1], got[len(got)-1])
		requireNoAllocs(t, m)
	})
}

// TestFamilies2026OnFlash streams random parts of the weights and of the KV cache, alone and in shared
// passes, and reads the pack of each file: the logits are those of the model in memory.
func TestFamilies2026OnFlash(t *testing.T) {
	eachFamily2026(t, func(t *testing.T, dir string, models []string) {
		for _, path := range models {
			modeltest.RequireSameWeights(t, vfs.OS(), path, false)
		}
		f := openPack(t, modeltest.ImportModel(t, vfs.OS(), dir))
		whole := loadPart(t, f, Options{Threads: 2, Chunk: 64, KV: kv.K8V8})
		ids := longPrompt(whole.Spec.Vocab, 200, 7)
		want := allLogits(t, whole, ids)
		for seed := range uint64(testutil.Effort(1, 8)) {
			rng := rand.New(rand.NewPCG(seed, 5))
			o := coldOptions(t, rng, vfs.OS(), kv.K8V8, whole.KVBytesPerToken()*kv.BlockTokens)
			o.Plan, o.KVHot = partPlan(rng, whole.Spec), 1
			m := loadPart(t, f, o)
			require.Equal(t, want, inSteps(t, m, ids), o.describe())
			requireSameTogether(t, whole, m, 3, 3)
		}
	})
}

// TestFamilies2026TakeWhatIsPlanned loads each family by the plan of a budget that its dense weights fit, and by that of the smallest
// that suffices: pinned weights take no more memory than the plan has for them, vectors of experts included.
func TestFamilies2026TakeWhatIsPlanned(t *testing.T) {
	eachFamily2026(t, func(t *testing.T, dir string, _ []string) {
		f := openPack(t, modeltest.ImportModel(t, vfs.OS(), dir))
		for _, limit := range []int64{0, 1} {
			o := Options{Threads: 2, KV: kv.K8V8, Chunk: 16}
			o.Plan = planBeside(t, f, o, 0, limit)
			m := loadPart(t, f, o)
			require.LessOrEqual(t, m.Budget().Usage().By[tiering.Pinned], o.Plan.By[tiering.Pinned], "budget %d", o.Plan.Budget)
		}
	})
}

// TestSpecsAreRepeatable: a file's hyper-parameters give the same network each time they are converted.
func TestSpecsAreRepeatable(t *testing.T) {
	eachFamily2026(t, func(t *testing.T, _ string, models []string) {
		for _, path := range models {
			f, err := modelfile.Open(vfs.OS(), path)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, f.Close()) })
			first, err := f.Spec()
			require.NoError(t, err)
			second, err := f.Spec()
			require.NoError(t, err)
			require.Equal(t, first, second)
		}
	})
}

// TestMXFP4IsReadAsStored: the experts of a checkpoint and of its GGUF file have the same codes, so that
// both models compute the same bits, also with quantized activations.
func TestMXFP4IsReadAsStored(t *testing.T) {
	dir := testutil.Shared(t, "fixtures2026", "gpt_oss")
	ids := longPrompt(512, 40, 3)
	one := loadModel(t, vfs.OS(), dir, Options{Threads: 2})
	other := loadModel(t, vfs.OS(), filepath.Join(dir, "model.gguf"), Options{Threads: 2})
	for l := range one.weights.Layers {
		for x := range one.weights.Layers[l].Experts {
			a, b := &one.weights.Layers[l].Experts[x], &other.weights.Layers[l].Experts[x]
			require.Equal(t, quant.MXFP4, a.Up.Type)
			require.Equal(t, *b, *a)
		}
	}
	require.Equal(t, allLogits(t, other, ids), allLogits(t, one, ids))
}

// floatExperts returns a copy of a gpt-oss checkpoint whose experts are BF16, transposed, as fine-tuned checkpoints are saved.
// The numbers of MXFP4 are numbers of BF16.
func floatExperts(t *testing.T, dir string) vfs.FS {
	t.Helper()
	config, tensors := modeltest.ReadRaw(t, dir)
	delete(config, "quantization_config")
	src, err := safetensors.Open(vfs.OS(), dir)
	require.NoError(t, err)
	defer src.Close()
	values := [8]float64{0, 0.5, 1, 1.5, 2, 3, 4, 6}
	for _, name := range src.Auxiliaries() {
		module, ok := strings.CutSuffix(name, "_blocks")
		if !ok {
			continue
		}
		read := func(name string) ([]byte, []int) {
			a, _ := src.Auxiliary(name)
			data := make([]byte, a.Size)
			_, err := src.ReadAt(a.Tensor, data, 0)
			require.NoError(t, err)
			return data, a.Shape
		}
		blocks, shape := read(name)
		scales, _ := read(module + "_scales")
		experts, rows, cols := shape[0], shape[1], shape[2]*32
		out := make([]byte, 2*experts*rows*cols)
		for i := range experts * rows * cols {
			e, r, c := i/rows/cols, i/cols%rows, i%cols
			code := blocks[i/2] >> (4 * (i % 2)) & 15
			v := math.Copysign(math.Ldexp(values[code&7], int(scales[i/32])-127), 7.5-float64(code))
			binary.LittleEndian.PutUint16(out[2*((e*cols+c)*rows+r):], uint16(math.Float32bits(float32(v))>>16))
		}
		tensors[module] = modeltest.RawTensor{Dtype: "BF16", Shape: []int{experts, cols, rows}, Data: out}
	}
	return modeltest.WriteRaw(t, config, tensors)
}

// TestFloatExpertsOfGPTOSS: a checkpoint whose experts are BF16 has the logits of the one in MXFP4, and a pack of it the same
// weights.
func TestFloatExpertsOfGPTOSS(t *testing.T) {
	dir := testutil.Shared(t, "fixtures2026", "gpt_oss")
	fsys := floatExperts(t, dir)
	var ref reference
	testutil.ReadJSON(t, filepath.Join(dir, "reference.json"), &ref)
	m := loadModel(t, fsys, "m", Options{Threads: 2, Chunk: 16, Exact: true})
	require.Equal(t, quant.BF16, m.weights.Layers[0].Experts[0].Up.Type)
	ref.check(t, m)

	stored := loadModel(t, vfs.OS(), dir, Options{Threads: 2, Exact: true})
	ids := longPrompt(512, 40, 3)
	want, got := allLogits(t, stored, ids), allLogits(t, m, ids)
	for i := range want {
		require.InDeltaSlice(t, want[i], got[i], 1e-4)
	}
	modeltest.RequireSameWeights(t, fsys, "m", true)
}
