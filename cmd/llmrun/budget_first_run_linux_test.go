package main

import (
	"context"
	"encoding/base64"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestBudgetHoldsForAFirstRunThatMeasures imports a model, measures the machine and answers a long
// prompt, in the budget that a refusal has stated. What the import has left on Go's heap and what the
// measurements take do not exceed it together.
func TestBudgetHoldsForAFirstRunThatMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command")
	}
	binary := builtCommand(t)
	shape, ok := synth.FindShape("qwen2.5-0.5b")
	require.True(t, ok)
	shape.Layers = 4
	model := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, synth.Write(context.Background(), vfs.OS(), model, synth.Options{Shape: shape, Quant: "q4_0"}))
	random := make([]byte, 1_500_000)
	_, err := rand.NewChaCha8([32]byte{}).Read(random)
	require.NoError(t, err)
	for name, text := range map[string]string{"random letters": strings.ReplaceAll(base64.StdEncoding.EncodeToString(random), "+", "."), "one letter": strings.Repeat("a", 5_000_000)} {
		prompt := filepath.Join(t.TempDir(), "prompt")
		require.NoError(t, os.WriteFile(prompt, []byte(text), 0o600))
		run := func(ram string) *exec.Cmd {
			return exec.Command(binary, "run", "-m", model, "-f", prompt, "--ctx", "512", "--overflow", "slide", "--allow-truncate", "--ram", ram,
				"--cache-dir", t.TempDir(), "--threads", "2", "-n", "2", "--temp", "0", "--ignore-eos", "--stats")
		}
		refusal, err := run("43MiB").CombinedOutput() // more than eight times the prompt
		require.Error(t, err)
		stated := statedMinimum.FindSubmatch(refusal)
		require.NotNil(t, stated, "%s", refusal)
		number, err := strconv.ParseFloat(string(stated[1]), 64)
		require.NoError(t, err)
		require.Equal(t, "MiB", string(stated[2]))
		budget := int64(number * (1 << 20))
		for range testutil.Effort(1, 8) {
			peak, code := peakOf(t, run(strconv.FormatInt(budget, 10)))
			t.Logf("%s: %.1f MiB of %.1f", name, float64(peak)/(1<<20), number)
			require.Zero(t, code, name)
			require.LessOrEqual(t, peak, budget+budgetSlack, name)
		}
	}
}
