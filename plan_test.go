package llmrun_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

func TestPlanMemory(t *testing.T) {
	options := llmrun.Options{Context: 1000, Threads: 1, Cache: llmrun.CacheOptions{Dir: t.TempDir()}}
	plan := func(budget int64) *llmrun.MemoryPlan {
		options.Memory.RAM = budget
		p, err := llmrun.PlanMemory(t.Context(), demoModel, options, false)
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

func TestPlanMemoryRefuses(t *testing.T) {
	options := llmrun.Options{Memory: llmrun.MemoryOptions{KV: "f32", RAM: 40 << 20}}
	_, err := llmrun.PlanMemory(t.Context(), demoModel, options, false)
	require.ErrorIs(t, err, llmrun.ErrBudget)
	var refused *llmrun.MinimumError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 2048, refused.Context, "the default context")
	require.Greater(t, refused.Minimum, int64(40<<20))

	options.Context, options.Memory.RAM = 32768, 120<<20
	_, err = llmrun.PlanMemory(t.Context(), demoModel, options, false)
	require.ErrorAs(t, err, &refused)
	require.True(t, refused.KVFits)
	require.Positive(t, refused.ContextFits)

	options.Threads = -1
	_, err = llmrun.PlanMemory(t.Context(), demoModel, options, false)
	require.ErrorIs(t, err, llmrun.ErrOptions)
	_, err = llmrun.PlanMemory(t.Context(), "nowhere", llmrun.Options{}, false)
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
