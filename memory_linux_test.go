package llmrun_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestSetBudgetGivesMemoryBack looks at what the system says the process holds:
// it falls with the budget before SetBudget returns, in the middle of a
// generation.
func TestSetBudgetGivesMemoryBack(t *testing.T) {
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Layers, shape.Dim, shape.FFN, shape.Vocab = 10, 1024, 4096, 2048
	source := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, synth.Write(context.Background(), vfs.OS(), source, synth.Options{Shape: shape, Quant: "q8_0"}))
	path := packed(t, source, llmrun.ImportOptions{Replace: true})
	options := llmrun.Options{Threads: 2, Context: 256, Chunk: 16}
	least := minimum(t, path, options)
	options.RAM = 1 << 30
	e := open(t, path, options)
	s := newSession(t, e)
	o := limit(6)
	o.IgnoreEOS = true
	step := 0
	for _, err := range s.GenerateIDs(context.Background(), someIDs(e, 20), o) {
		require.NoError(t, err)
		if step++; step != 3 {
			continue
		}
		debug.FreeOSMemory()
		ledger, system := held(e), resident(t)
		require.NoError(t, e.SetBudget(least+8<<20))
		fell := ledger - held(e)
		require.Greater(t, fell, int64(100<<20))
		require.GreaterOrEqual(t, system-resident(t), fell*9/10)
	}
	require.Equal(t, 6, step)
}

// resident returns what the process holds of memory.
func resident(t *testing.T) (bytes int64) {
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "RssAnon", "RssFile", "RssShmem":
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			require.NoError(t, err)
			bytes += kb << 10
		}
	}
	return bytes
}
