package llmrun_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
)

// agreeCell is a model with options; the test opens it with several budgets.
type agreeCell struct {
	name    string
	path    string
	options llmrun.Options
}

// agreeCells returns models that can be streamed, that are imported first, and that cannot be
// streamed, with formats and directories of keys and values.
func agreeCells(t *testing.T) []agreeCell {
	dir := t.TempDir()
	write := func(name, shape, mix string, vocab int) string {
		s, ok := synth.FindShape(shape)
		require.True(t, ok)
		s.Layers, s.Vocab, s.Tied = 3, vocab, false
		path := filepath.Join(dir, name)
		require.NoError(t, synth.Write(t.Context(), vfs.OS(), path, synth.Options{Shape: s, Quant: mix}))
		return path
	}
	pack := func(path string) string {
		_, err := llmrun.Import(t.Context(), path, path+llmrun.PackSuffix, llmrun.ImportOptions{})
		require.NoError(t, err)
		return path + llmrun.PackSuffix
	}
	file, floats, experts := write("m.gguf", "tiny", "q8_0", 2048), write("f.gguf", "tiny", "f16", 2048), write("x.gguf", "tiny-moe", "q8_0", 2048)
	cached := llmrun.CacheOptions{Dir: filepath.Join(dir, "cache")}
	cold := llmrun.CacheOptions{KVDir: filepath.Join(dir, "kv")}
	sealed := llmrun.CacheOptions{KVDir: filepath.Join(dir, "sealed"), KeyFile: keyFile(t, 1)}
	perTensor := llmrun.LabOptions{W8A8: &llmrun.W8A8{Calibration: calibrateDemo(t, llmrun.CalibrateOptions{}).Path}}
	adapter := []string{demoAdapter(t, 4)}
	memory := func(format, selection string) llmrun.MemoryOptions {
		return llmrun.MemoryOptions{KV: format, KVSelect: selection, Pin: "anon"}
	}
	limited := llmrun.CacheOptions{KVDir: filepath.Join(dir, "limited"), DailyWrites: 100 << 10}
	prompted := memory("f32", "")
	prompted.PromptTokens = 2000
	return []agreeCell{
		{"pack", pack(file), llmrun.Options{Context: 512}},
		{"pack with cold KV", pack(file), llmrun.Options{Context: 4096, Cache: cold, Memory: memory("f32", "")}},
		{"pack with few writes", pack(file), llmrun.Options{Context: 4096, Cache: limited, Memory: prompted}},
		{"pack with selection", pack(file), llmrun.Options{Context: 4096, Cache: cold, Memory: memory("k8v8", "0.1")}},
		{"pack of experts", pack(experts), llmrun.Options{Context: 512}},
		{"file", file, llmrun.Options{Context: 512}},
		{"large vocabulary", write("v.gguf", "tiny", "q8_0", 200_000), llmrun.Options{Context: 512}},
		{"file that is imported", file, llmrun.Options{Context: 512, Cache: cached}},
		{"float file that is imported to stream", floats, llmrun.Options{Context: 512, Cache: cached}},
		{"quantized while loading", pack(floats), llmrun.Options{Context: 512, Quantize: "q8"}},
		{"exact", pack(file), llmrun.Options{Context: 512, Exact: true}},
		{"mapped", pack(file), llmrun.Options{Context: 512, Memory: llmrun.MemoryOptions{Pin: "file"}}},
		{"encrypted", pack(file), llmrun.Options{Context: 4096, Cache: sealed, Memory: memory("f32", "")}},
		{"merged adapter", demoModel, llmrun.Options{Context: 512, Adapters: adapter}},
		{"adapter beside", demoModel, llmrun.Options{Context: 512, Adapters: adapter, AdaptersBeside: true}},
		{"adapter beside a model that is imported", demoModel, llmrun.Options{Context: 512, Adapters: adapter, AdaptersBeside: true, Cache: cached}},
		{"W8A8", demoModel, llmrun.Options{Context: 512, Lab: perTensor}},
	}
}

// TestPlanAndOpenAgree checks that PlanMemory accepts exactly the models, options and budgets
// that Open accepts, that it refuses the others in the same words, and that the minimum which
// it states is one.
func TestPlanAndOpenAgree(t *testing.T) {
	t.Parallel()
	rates := llmrun.PlanOptions{RatesDir: t.TempDir()}
	for _, c := range agreeCells(t) {
		t.Run(c.name, func(t *testing.T) { requireAgreement(t, c, rates) })
	}
}

// requireAgreement plans and opens a cell with budgets around its minimum and its whole size.
func requireAgreement(t *testing.T, c agreeCell, rates llmrun.PlanOptions) {
	t.Helper()
	c.options.Threads = 1
	plan := func(ram int64) (*llmrun.MemoryPlan, error) {
		c.options.Memory.RAM = ram
		return llmrun.PlanMemory(t.Context(), c.path, c.options, rates)
	}
	require.NoError(t, second(plan(llmrun.NoLimit))) // measures the machine, for the other cells too
	whole, err := plan(1 << 50)                      // with the program's heap, which counts if there is a limit
	require.NoError(t, err)
	least := whole.Minimum
	budgets := []int64{least - 1, least, (least + whole.Total()) / 2, whole.Total() - 1, whole.Total(), 1, least / 2, least + 64<<10, 2 * whole.Total()}
	for _, ram := range budgets[:testutil.Effort(3, len(budgets))] {
		p, planned := plan(ram)
		require.NotNil(t, p, "%d bytes", ram)
		engine, opened := llmrun.Open(c.path, c.options)
		if opened == nil {
			require.NoError(t, engine.Close())
		}
		if ram < least {
			require.Error(t, planned)
		} else {
			require.NoError(t, planned, "the minimum is %d bytes", least)
		}
		require.Equal(t, planned == nil, p.Runs)
		if planned == nil {
			require.NoError(t, opened, "planned with %d bytes", ram)
			require.Empty(t, p.Refused)
			continue
		}
		require.ErrorIs(t, planned, llmrun.ErrBudget)
		require.EqualError(t, opened, planned.Error())
		require.Equal(t, planned.Error(), p.Refused)
		require.Equal(t, least, p.Minimum)
	}
}
