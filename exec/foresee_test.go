package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/quant"
)

// What is foreseen may be any step, also one whose weights are not in memory or
// not there at all.
func TestForeseeAnyStep(t *testing.T) {
	workers := threadpool.NewWorkers(3)
	defer workers.Close()
	full := &linear{Matrix: Matrix{Type: quant.Q4_0, Rows: 64, Cols: 64, Tiled: true, Data: make([]byte, 64*36)}}
	part := &linear{Matrix: Matrix{Type: quant.Q4_0, Rows: 64, Cols: 64, Tiled: true, Data: full.Data[:32*36]}}
	part.rest.count = 32
	gone := &linear{Matrix: Matrix{Type: quant.Q4_0, Rows: 64, Cols: 64}}
	gone.rest.count = 64
	for _, threads := range []int{1, 3} {
		p := &pass{m: &Model{workers: workers}, n: 1, workers: make([]workspace, threads)}
		for _, step := range [][]*linear{{full}, {full, part}, {gone}, {part, gone, full}, {}, {new(linear)}} {
			require.NotPanics(t, func() { p.foresee(step...) })
		}
		require.Zero(t, testing.AllocsPerRun(10, func() { p.foresee(full, part, gone) }))
	}
}
