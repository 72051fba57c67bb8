package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// pageBytes is the length of a page of text.
const pageBytes = 3000

// TestSummariesHoldTheirBudget summarizes a short and a long text in 64 MiB, and expects both to stay within it, and the
// long one to take no more memory than the short one. LLMRUN_TEST_SWEEP takes 300 pages.
func TestSummariesHoldTheirBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command, and runs the bundled model")
	}
	binary, r, dir := builtCommand(t), testutil.Random(t), t.TempDir()
	pages := testutil.Effort(2, 300)
	peaks := map[int]int64{}
	for _, n := range []int{max(1, pages/10), pages} {
		file := filepath.Join(dir, "text.md")
		require.NoError(t, os.WriteFile(file, []byte(variedText(r, n*pageBytes)), 0o600))
		var out strings.Builder
		command := exec.Command(binary, "summarize", file, "--ram", "64MiB", "--length", "50", "--threads", "2", "--cache-dir", filepath.Join(dir, "cache"))
		command.Stdout = &out
		peak, code := peakOf(t, command)
		require.Zero(t, code)
		require.NotEmpty(t, strings.TrimSpace(out.String()))
		require.LessOrEqual(t, peak, int64(64<<20+budgetSlack), "%d pages", n)
		t.Logf("%d pages: %.1f MiB", n, float64(peak)/(1<<20))
		peaks[n] = peak
	}
	if pages >= 10*len(peaks) { // a page more or less tells nothing
		require.LessOrEqual(t, peaks[pages], peaks[pages/10]+budgetSlack, "memory grows with the document")
	}
}
