package exec

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/calib"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/store/w8a8"
)

// convertedSource is a model whose weights no pack stores as they are used.
type convertedSource struct {
	fsys    vfs.FS
	path    string
	prepare func(*testing.T, *modelfile.Files, *Options) // changes the weights; may be nil
}

// open opens the model and changes its weights.
func (c *convertedSource) open(t *testing.T, o *Options) *modelfile.Files {
	f, err := modelfile.Open(c.fsys, c.path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	if c.prepare != nil {
		c.prepare(t, f, o)
	}
	return f
}

// convertedSources returns models of every kind that is converted while it is read.
func convertedSources(t *testing.T) map[string]convertedSource {
	tiny := func(name string) string { return testutil.Shared(t, "gguf", name) }
	llama, tied := testutil.Shared(t, "fixtures", "llama3"), testutil.Shared(t, "fixtures", "llama32")
	quantize := func(mix string) func(*testing.T, *modelfile.Files, *Options) {
		return func(t *testing.T, f *modelfile.Files, _ *Options) { require.NoError(t, f.Quantize(mix, nil)) }
	}
	exact := func(_ *testing.T, _ *modelfile.Files, o *Options) { o.Exact = true }
	merge := func(t *testing.T, f *modelfile.Files, _ *Options) {
		require.NoError(t, f.Merge(vfs.OS(), testutil.Shared(t, "fixtures", "llama32", "lora_all")))
	}
	beside := func(t *testing.T, f *modelfile.Files, _ *Options) {
		require.NoError(t, f.KeepBeside(vfs.OS(), testutil.Shared(t, "fixtures", "llama32", "lora_all")))
	}
	ordered, _, _ := modeltest.PackFixture(t, modeltest.Fixture(t, "llama3"), modeltest.PackedAs{Bits: 4, Group: 32, Order: true})
	calibration := vfs.NewMem()
	calibrated(t, calibration, llama, 1)
	perTensor := func(t *testing.T, f *modelfile.Files, o *Options) {
		c, err := w8a8.Open(calibration, "c")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		require.NoError(t, calib.UsePerRowInt8(t.Context(), f, c))
		o.W8A8 = &W8A8{Calibration: c, Outliers: OutlierFraction(0.5)}
	}
	return map[string]convertedSource{
		"GGUF":                {vfs.OS(), tiny("tiny-llama-q4_k_m.gguf"), nil},
		"GGUF, floats":        {vfs.OS(), tiny("tiny-llama-bf16.gguf"), nil},
		"safetensors":         {vfs.OS(), llama, nil},
		"safetensors, tied":   {vfs.OS(), tied, nil},
		"experts":             {vfs.OS(), testutil.Shared(t, "fixtures", "qwen2_moe"), nil},
		"GPTQ":                {ordered, "m", nil},
		"GPTQ, exact":         {ordered, "m", exact},
		"exact":               {vfs.OS(), tiny("tiny-llama-q8_0.gguf"), exact},
		"exact, pack":         {modeltest.ImportModel(t, vfs.OS(), tiny("tiny-llama-q8_0.gguf")), "m.pack", exact},
		"quantized":           {vfs.OS(), llama, quantize("q4")},
		"quantized, pack":     {modeltest.ImportModel(t, vfs.OS(), llama), "m.pack", quantize("q8")},
		"adapter":             {vfs.OS(), tied, merge},
		"adapter, pack":       {modeltest.ImportModel(t, vfs.OS(), tied), "m.pack", merge},
		"adapter beside":      {vfs.OS(), tied, beside},
		"beside, pack":        {modeltest.ImportModel(t, vfs.OS(), tied), "m.pack", beside},
		"W8A8":                {vfs.OS(), llama, perTensor},
		"quantized + adapter": {vfs.OS(), tied, func(t *testing.T, f *modelfile.Files, o *Options) { merge(t, f, o); quantize("q8")(t, f, o) }},
	}
}

// TestConvertedWeightsGiveTheSameLogits compares models that convert a random part of their
// weights in each pass with the models in memory, to the last bit.
func TestConvertedWeightsGiveTheSameLogits(t *testing.T) {
	ids := []int32{1, 5, 3, 9, 2, 7, 11, 4}
	for name, c := range convertedSources(t) {
		t.Run(name, func(t *testing.T) {
			o := Options{Threads: 2}
			f := c.open(t, &o)
			whole := loadPart(t, f, o)
			want := allLogits(t, whole, ids)
			for seed := range uint64(2) {
				rng := rand.New(rand.NewPCG(seed, 3))
				o.Plan = partPlan(rng, whole.Spec)
				m := loadPart(t, f, o)
				require.True(t, m.NeedsFiles())
				require.Equal(t, want, allLogits(t, m, ids), "seed %d", seed)
				require.NoError(t, m.Replan(context.Background(), partPlan(rng, whole.Spec)))
				require.Equal(t, want, allLogits(t, m, ids), "seed %d, after another plan", seed)
			}
		})
	}
}

// TestChangedSourceIsReported changes a model's file while its weights are converted. The pass
// that reads it fails with an error that names the file.
func TestChangedSourceIsReported(t *testing.T) {
	for _, source := range []string{testutil.Shared(t, "gguf", "tiny-llama-q8_0.gguf"), testutil.Shared(t, "fixtures", "llama3", "model.safetensors")} {
		t.Run(filepath.Base(source), func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, filepath.Base(source))
			for _, name := range []string{source, filepath.Join(filepath.Dir(source), "config.json")} {
				data, err := os.ReadFile(name)
				if name != source && err != nil {
					continue // a GGUF file has its own
				}
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), data, 0o600))
			}
			f, err := modelfile.Open(vfs.OS(), path)
			require.NoError(t, err)
			defer func() { require.NoError(t, f.Close()) }()
			m := streamed(t, f)
			ids := longPrompt(m.Spec.Vocab, 20, 7)
			s, err := m.NewSequence(0)
			require.NoError(t, err)
			defer s.Close()
			require.NoError(t, m.Extend(context.Background(), s, ids[:8], &ExtendOptions{}))

			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			require.NoError(t, err)
			info, err := file.Stat()
			require.NoError(t, err)
			_, err = file.WriteAt([]byte{1, 2, 3, 4}, info.Size()/2)
			require.NoError(t, err)
			require.NoError(t, file.Close())
			require.NoError(t, os.Chtimes(path, time.Time{}, info.ModTime().Add(time.Second)))
			for range 4 { // prefetched bytes may suffice for a token
				if err = m.Extend(context.Background(), s, ids[s.Len():s.Len()+1], &ExtendOptions{}); err != nil {
					break
				}
			}
			require.ErrorIs(t, err, store.ErrChanged)
			var damage *store.FormatError
			require.ErrorAs(t, err, &damage)
			require.Equal(t, path, damage.Path)
			require.Positive(t, damage.Off)
		})
	}
}
