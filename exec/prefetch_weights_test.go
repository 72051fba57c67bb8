package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/quant"
)

// TestPrefetchAnyStep prefetches steps whose weights are resident, partly resident, absent or
// empty.
func TestPrefetchAnyStep(t *testing.T) {
	workers := threadpool.New(3)
	defer workers.Close()
	full := &weights.Linear{Matrix: weights.Matrix{Type: quant.Q4_0, Rows: 64, Cols: 64, Tiled: true, Data: make([]byte, 64*36)}}
	part := &weights.Linear{Matrix: weights.Matrix{Type: quant.Q4_0, Rows: 64, Cols: 64, Tiled: true, Data: full.Data[:32*36]}}
	part.Streamed.Count = 32
	gone := &weights.Linear{Matrix: weights.Matrix{Type: quant.Q4_0, Rows: 64, Cols: 64}}
	gone.Streamed.Count = 64
	for _, threads := range []int{1, 3} {
		p := &passState{m: &Model{workers: workers}, n: 1, workers: make([]workspace, threads)}
		for _, step := range [][]*weights.Linear{{full}, {full, part}, {gone}, {part, gone, full}, {}, {new(weights.Linear)}} {
			require.NotPanics(t, func() { p.prefetch(step...) })
		}
		require.Zero(t, testutil.AllocsPerRun(10, 0, func() { p.prefetch(full, part, gone) }))
	}
}
