package llmrun_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
)

func TestPlanMemory(t *testing.T) {
	options := llmrun.Options{Context: 1000, Threads: 1, Cache: llmrun.CacheOptions{Dir: t.TempDir()}}
	plan := func(budget int64) *llmrun.MemoryPlan {
		options.Memory.RAM = budget
		p, err := llmrun.PlanMemory(t.Context(), demoModel, options, llmrun.PlanOptions{})
		require.NoError(t, err)
		return p
	}
	whole := plan(llmrun.NoLimit)
	require.True(t, whole.Resident())
	require.Equal(t, 1000, whole.Context)
	require.Positive(t, whole.PredictedDecode)
	require.Positive(t, whole.PredictedPrefill)
	require.Len(t, whole.Sections, 9, "eight layers and the output, which is the embedding too")
	require.Greater(t, whole.WeightBytes, int64(2*14_948_736))
	require.Less(t, whole.WeightBytes, int64(2*14_948_736+100_000))

	part := plan(whole.Total() - 24<<20)
	require.False(t, part.Resident())
	require.LessOrEqual(t, part.Total(), part.Budget)
	require.LessOrEqual(t, part.PredictedDecode, whole.PredictedDecode)
	var pinned, memory int64
	for i, section := range part.Sections {
		require.LessOrEqual(t, section.Pinned, section.Bytes)
		require.Equal(t, whole.Sections[i].Bytes, section.Bytes)
		pinned += section.Pinned
	}
	for _, item := range part.Memory() {
		memory += item.Bytes
		if item.Purpose == "pinned weights" {
			require.GreaterOrEqual(t, item.Bytes, pinned)
		}
	}
	require.Equal(t, part.Total(), memory)
	require.Equal(t, whole.WeightBytes-pinned, part.StreamedPerToken)

	data, err := json.Marshal(part)
	require.NoError(t, err)
	for _, field := range []string{"budget_bytes", "by_purpose", "ring_bytes", "predicted_decode_tok_s", "sections", "measured", "kv"} {
		require.Contains(t, string(data), `"`+field+`":`)
	}
	var got struct {
		By     map[string]int64 `json:"by_purpose"`
		Pinned []int64          `json:"pinned_bytes"`
	}
	require.NoError(t, json.Unmarshal(data, &got))
	require.Len(t, got.Pinned, 8)
	require.Positive(t, got.By["weight ring"])
}

// TestPlanMemoryForecasts checks the prediction of a whole conversation.
func TestPlanMemoryForecasts(t *testing.T) {
	options := llmrun.Options{Context: 4096, Threads: 1, Memory: llmrun.MemoryOptions{RAM: llmrun.NoLimit}}
	how := llmrun.PlanOptions{RatesDir: t.TempDir()}
	p, err := llmrun.PlanMemory(t.Context(), demoModel, options, how)
	require.NoError(t, err)
	require.Equal(t, p.PredictedDecode, p.Decode.Start)
	require.Less(t, p.Decode.Half, p.Decode.Start, "attention takes time")
	require.Less(t, p.Decode.Full, p.Decode.Half)
	require.Equal(t, 512, p.Prompt)
	require.Positive(t, p.FirstToken)
	require.Equal(t, p.FirstToken, p.TotalTime)

	how.Prompt, how.Answer = 1000, 10_000
	long, err := llmrun.PlanMemory(t.Context(), demoModel, options, how)
	require.NoError(t, err)
	require.Equal(t, p.Measured, long.Measured, "the measurements are cached")
	require.Equal(t, 1000, long.Prompt)
	require.Equal(t, 3096, long.Answer, "the rest of the context")
	require.Greater(t, long.FirstToken, p.FirstToken)
	require.InEpsilon(t, long.FirstToken+3095/p.Decode.Half, long.TotalTime, 0.5)

	how.Prompt = -1
	_, err = llmrun.PlanMemory(t.Context(), demoModel, options, how)
	require.ErrorIs(t, err, llmrun.ErrOptions)
}

// TestPlanMemoryAdvises checks that each change of the advice is as fast as the plan says, and
// that changes for a refused budget make the model run.
func TestPlanMemoryAdvises(t *testing.T) {
	options := llmrun.Options{Context: 8192, Threads: 1, Memory: llmrun.MemoryOptions{RAM: llmrun.NoLimit, KV: "f32"}}
	how := llmrun.PlanOptions{RatesDir: t.TempDir()}
	plan := func(o llmrun.Options) (*llmrun.MemoryPlan, map[string]float64) {
		p, err := llmrun.PlanMemory(t.Context(), demoModel, o, how)
		if err != nil {
			require.ErrorIs(t, err, llmrun.ErrBudget)
		}
		gains := map[string]float64{}
		for _, a := range p.Advice {
			gains[a.Change] = a.Decode
		}
		return p, gains
	}
	options.Lab.Disk = llmrun.DiskSpeed{BytesPerSecond: 1e9}
	plan(options) // measures the machine
	options.Memory.RAM = 120 << 20
	options.Cache.KVDir = t.TempDir()
	p, gains := plan(options)
	require.True(t, p.Runs)
	require.Contains(t, gains, "--kv k8v8")
	require.Contains(t, gains, "--ctx 4096")
	for change, set := range map[string]func(*llmrun.Options){
		"--kv k8v8":  func(o *llmrun.Options) { o.Memory.KV = "k8v8" },
		"--ctx 4096": func(o *llmrun.Options) { o.Context = 4096 },
	} {
		changed := options
		set(&changed)
		better, _ := plan(changed)
		require.Greater(t, gains[change], p.Decode.Half)
		require.InEpsilon(t, better.Decode.Half, gains[change], 0.5, change)
	}

	options.Cache.KVDir, options.Memory.RAM = "", 80<<20
	p, gains = plan(options)
	require.False(t, p.Runs)
	require.Contains(t, gains, "--kv k8v8")
	require.Zero(t, gains["--kv k8v8"], "nothing is measured for a model that does not run")
}

// TestPlanMemoryAdvisesRefusedModels checks that changes for a refused budget make the model run
// as fast as the advice says.
func TestPlanMemoryAdvisesRefusedModels(t *testing.T) {
	t.Parallel()
	options := llmrun.Options{Context: 8192, Threads: 1, Memory: llmrun.MemoryOptions{RAM: llmrun.NoLimit, KV: "f32"}}
	how := llmrun.PlanOptions{RatesDir: t.TempDir()}
	for _, format := range []string{"f32", "k8v8"} {
		options.Memory.KV = format
		_, err := llmrun.PlanMemory(t.Context(), hubmodel.Pack, options, how) // measures the machine
		require.NoError(t, err)
	}
	options.Memory.RAM, options.Memory.KV, how.MeasureRefused = 80<<20, "f32", true
	p, err := llmrun.PlanMemory(t.Context(), hubmodel.Pack, options, how)
	require.ErrorIs(t, err, llmrun.ErrBudget)
	ram := (p.Minimum + 1<<20 - 1) >> 20
	for change, set := range map[string]func(*llmrun.Options){
		"--kv k8v8":                     func(o *llmrun.Options) { o.Memory.KV = "k8v8" },
		fmt.Sprintf("--ram %dMiB", ram): func(o *llmrun.Options) { o.Memory.RAM = ram << 20 },
	} {
		i := slices.IndexFunc(p.Advice, func(a llmrun.PlanAdvice) bool { return a.Change == change })
		require.GreaterOrEqual(t, i, 0, change)
		changed := options
		set(&changed)
		runs, err := llmrun.PlanMemory(t.Context(), hubmodel.Pack, changed, how)
		require.NoError(t, err)
		require.Positive(t, p.Advice[i].Decode)
		require.InEpsilon(t, runs.Decode.Half, p.Advice[i].Decode, 1e-9, change)
	}
}

func TestPlanMemoryRefuses(t *testing.T) {
	options := llmrun.Options{Memory: llmrun.MemoryOptions{KV: "f32", RAM: 40 << 20}}
	_, err := llmrun.PlanMemory(t.Context(), demoModel, options, llmrun.PlanOptions{})
	require.ErrorIs(t, err, llmrun.ErrBudget)
	var refused *llmrun.MinimumError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 2048, refused.Context, "the default context")
	require.Greater(t, refused.Minimum, int64(40<<20))

	options.Context, options.Memory.RAM = 32768, 120<<20
	_, err = llmrun.PlanMemory(t.Context(), demoModel, options, llmrun.PlanOptions{})
	require.ErrorAs(t, err, &refused)
	require.True(t, refused.KVFits)
	require.Positive(t, refused.ContextFits)

	options.Threads = -1
	_, err = llmrun.PlanMemory(t.Context(), demoModel, options, llmrun.PlanOptions{})
	require.ErrorIs(t, err, llmrun.ErrOptions)
	_, err = llmrun.PlanMemory(t.Context(), "nowhere", llmrun.Options{}, llmrun.PlanOptions{})
	require.Error(t, err)
}

func TestParseMemory(t *testing.T) {
	n, err := llmrun.ParseMemory("1.5GiB")
	require.NoError(t, err)
	require.EqualValues(t, 3<<29, n)
	_, err = llmrun.ParseMemory("much")
	require.ErrorIs(t, err, llmrun.ErrOptions)
	t.Cleanup(llmrun.SetAvailableMemory(3 << 30))
	half, err := llmrun.ParseMemory("50%")
	require.NoError(t, err)
	require.EqualValues(t, 3<<29, half)
}
