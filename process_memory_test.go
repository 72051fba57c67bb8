package llmrun_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
)

// TestProcessBeyondItsBudgetReleasesWeights tells an engine that the process holds more than
// its budget. Weights make room, the ledger includes the excess, the user is told, and the
// answer does not change. The engine does not watch the process of the tests, which holds more
// than the budget by itself.
func TestProcessBeyondItsBudgetReleasesWeights(t *testing.T) {
	const ram, excess = 64 << 20, 9<<20 + 5
	e := open(t, hubmodel.Pack, llmrun.Options{Threads: 2, Context: 512, Memory: llmrun.MemoryOptions{RAM: ram}})
	generate := func() []int32 {
		got := collect(newSession(t, e).Generate(t.Context(), foxPrompt, llmrun.GenerateOptions{MaxTokens: 8}))
		require.NoError(t, got.err)
		return got.IDs
	}
	want, before := generate(), e.Memory()
	var told []string
	respond := func(resident int64) {
		e.RespondToProcess(func() int64 { return resident }, func(text string) { told = append(told, text) })
	}
	respond(ram)
	require.Empty(t, told)
	require.Equal(t, before.Held, e.Memory().Held)

	respond(ram + excess)
	require.Len(t, told, 1)
	require.Regexp(t, `^the process holds 73 MiB, 9 MiB more than its memory budget \(code [\d.]+ [KM]iB, stacks [\d.]+ [KM]iB, page tables [\d.]+ [KM]iB\)$`, told[0])
	after := e.Memory()
	require.Equal(t, before.Held["code"]+10<<20, after.Held["code"])
	require.Less(t, after.Held["pinned weights"], before.Held["pinned weights"])
	require.LessOrEqual(t, after.Ledger, int64(ram))
	require.Equal(t, want, generate())

	// An excess that no release can make room for is reported once, and changes nothing.
	told = nil
	for range 3 {
		respond(2 * ram)
	}
	require.Len(t, told, 1)
	require.Contains(t, told[0], "cannot release them")
	require.Equal(t, after.Held["code"], e.Memory().Held["code"])
	require.Equal(t, want, generate())
}
