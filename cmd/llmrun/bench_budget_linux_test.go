package main

import (
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBenchStaysWithinBudget runs bench with budgets: the measurement of the machine's limits keeps
// within them too, and is left out where it has no room.
func TestBenchStaysWithinBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command, and runs the bundled model")
	}
	binary := builtCommand(t)
	for _, budget := range []int64{16 << 20, 48 << 20, 100 << 20, 300 << 20} {
		peak, code := peakOf(t, exec.Command(binary, "bench", "--ram", strconv.FormatInt(budget, 10), "--pp", "16", "--tg", "2", "-r", "1", "--threads", "2"))
		t.Logf("%d MiB: %.1f MiB, exit code %d", budget>>20, float64(peak)/(1<<20), code)
		if budget < 40<<20 {
			require.Equal(t, exitBudget, code)
			continue // less than the program itself
		}
		require.Zero(t, code)
		require.LessOrEqual(t, peak, budget+budgetSlack)
	}
}
