package llmrun_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestShapesRunAtTwoBudgets writes a small model of each shape, plans it, and checks that it says the same with all weights
// in memory and with the least memory that the plan permits.
func TestShapesRunAtTwoBudgets(t *testing.T) {
	t.Parallel()
	rates := llmrun.PlanOptions{RatesDir: t.TempDir()}
	shapes, seen := synth.Shapes(), map[string]int{}
	slices.Reverse(shapes) // the newest families of an architecture first
	for _, shape := range shapes {
		features := fmt.Sprint(shape.Arch, shape.Experts > 0, shape.Latent.QRank > 0)
		seen[features]++
		if shape.Encoder.Pooling != 0 || seen[features] > testutil.Effort(1, len(shapes)) {
			continue // encoders say nothing; other sizes differ little when they are reduced
		}
		t.Run(shape.Name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.gguf")
			require.NoError(t, synth.Write(t.Context(), vfs.OS(), path, synth.Options{Shape: shape.Reduced(), Quant: "q4_0"}))
			o := llmrun.Options{Threads: 1, Memory: llmrun.MemoryOptions{RAM: 1 << 40}}
			plan, err := llmrun.PlanMemory(t.Context(), path, o, rates)
			require.NoError(t, err)
			require.True(t, plan.Runs)
			require.Less(t, plan.Minimum, plan.Total())

			say := func(ram int64) []int32 {
				o.Memory.RAM = ram
				e := open(t, path, o)
				return complete(t, newSession(t, e).Generate(t.Context(), "the cat", limit(6))).IDs
			}
			all := say(1 << 40)
			require.NotEmpty(t, all)
			require.Equal(t, all, say(plan.Minimum))
		})
	}
}
