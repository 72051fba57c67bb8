package llmrun_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
)

// demoAdapter writes a LoRA adapter of random factors for the demo model, and returns its
// directory.
func demoAdapter(t testing.TB, seed uint64) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, hubmodel.WriteAdapter(dir, seed))
	return dir
}

// TestAdaptersBesideStreamedWeights keeps an adapter beside a quantized pack, beside floats, and
// beside a model that is imported because it does not fit. The weights take what they take without
// an adapter, and the answer is the same at the smallest budget.
func TestAdaptersBesideStreamedWeights(t *testing.T) {
	t.Parallel()
	quantized := filepath.Join(t.TempDir(), "q.pack")
	_, err := llmrun.Import(t.Context(), demoModel, quantized, llmrun.ImportOptions{Quantize: "q4"})
	require.NoError(t, err)
	adapter, cache := []string{demoAdapter(t, 4)}, t.TempDir()
	for name, c := range map[string]struct {
		path string
		llmrun.CacheOptions
	}{
		"quantized pack": {path: quantized}, "floats": {path: demoModel},
		"imported": {demoModel, llmrun.CacheOptions{Dir: cache}},
	} {
		t.Run(name, func(t *testing.T) {
			o := llmrun.Options{Threads: 2, Context: 512, Memory: llmrun.MemoryOptions{RAM: llmrun.NoLimit}}
			rates := llmrun.PlanOptions{RatesDir: cache}
			plain, err := llmrun.PlanMemory(t.Context(), c.path, o, rates)
			require.NoError(t, err)
			without := fox(t, open(t, c.path, o), 12).IDs
			o.Adapters, o.AdaptersBeside = adapter, true
			o.Cache = c.CacheOptions
			beside, err := llmrun.PlanMemory(t.Context(), c.path, o, rates)
			require.NoError(t, err)
			require.Equal(t, plain.WeightBytes, beside.WeightBytes)
			want := fox(t, open(t, c.path, o), 12).IDs
			require.NotEqual(t, without, want)

			o.Memory.RAM = minimum(t, c.path, o)
			require.GreaterOrEqual(t, o.Memory.RAM, beside.Minimum)
			e := open(t, c.path, o)
			plan := e.Memory().Plan
			require.False(t, plan.Resident())
			require.Equal(t, want, fox(t, e, 12).IDs)
			require.LessOrEqual(t, e.Memory().Ledger, o.Memory.RAM)
		})
	}
}
