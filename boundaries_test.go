package llmrun_test

import (
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/enginemodel"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/tiering"
)

// TestProcessStaysWithinLedgerAtEveryLayer runs models in processes of their own. Before every
// matmul of every layer, hence at all boundaries of layers, the memory of the process as the
// kernel counts it is at most 1 MiB above the ledger.
func TestProcessStaysWithinLedgerAtEveryLayer(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system does not tell the memory of a process")
	}
	shape, ok := synth.FindShape("tiny-moe")
	require.True(t, ok)
	experts := packed(t, writeShape(t, shape, "q4_0"), llmrun.ImportOptions{})
	models := map[string]string{"pack": hubmodel.Pack, "experts": experts}
	budgets := []int64{48 << 20, 96 << 20}
	if testutil.Effort(0, 1) == 1 {
		models["safetensors"] = hubmodel.Dir(testutil.Root(t))
		models["quantized"] = models["safetensors"] + "=q8"
		models["file"] = writeShape(t, small(t), "q8_0")
		budgets = []int64{44 << 20, 48 << 20, 64 << 20, 96 << 20, 160 << 20, 240 << 20}
	}
	answers := 0
	for name, model := range models {
		for _, ram := range budgets {
			out, err := child("boundaries", model, strconv.FormatInt(ram, 10)).CombinedOutput()
			require.NoError(t, err, "%s", out)
			t.Logf("%s, %d MiB: %s", name, ram>>20, strings.SplitN(string(out), "\n", 2)[0])
			if !strings.Contains(string(out), "refused") {
				answers++
			}
		}
	}
	require.GreaterOrEqual(t, answers, len(models)*len(budgets)/2)
}

// compareAtBoundaries is the child of TestProcessStaysWithinLedgerAtEveryLayer. model may end
// with "=" and a type of weights to quantize to.
func compareAtBoundaries(t *testing.T, model, ram string) {
	limit, err := strconv.ParseInt(ram, 10, 64)
	require.NoError(t, err)
	model, mix, _ := strings.Cut(model, "=")
	e, err := llmrun.Open(filepath.FromSlash(model), llmrun.Options{
		Threads: 2, Context: 512, Quantize: mix, Memory: llmrun.MemoryOptions{RAM: limit, WatchProcess: true},
	})
	if err != nil {
		require.ErrorIs(t, err, llmrun.ErrBudget)
		fmt.Println("refused")
		return
	}
	defer e.Close()
	meter, err := tiering.NewResidentMeter()
	require.NoError(t, err)
	defer meter.Close()
	m := enginemodel.Of(e)
	compared, most := 0, int64(math.MinInt64)
	m.Observe(func(*weights.Linear, int, func(int) []float32) {
		compared++
		most = max(most, meter.Read()-m.Budget().Usage().Total)
	})
	ids := make([]int32, 300)
	for i := range ids {
		ids[i] = int32(i%200 + 5)
	}
	got := collect(newSession(t, e).GenerateIDs(t.Context(), ids, llmrun.GenerateOptions{MaxTokens: 20, IgnoreEOS: true}))
	require.NoError(t, got.err)
	fmt.Printf("%d comparisons, at most the ledger and %d bytes; ledger %d, process %d\n", compared, most, e.Memory().Ledger, e.Memory().Process)
	require.Greater(t, compared, 100)
	require.LessOrEqual(t, most, int64(1<<20))
	require.LessOrEqual(t, e.Memory().Process, limit+1<<20)
}
