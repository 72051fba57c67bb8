package exec

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/quant/tiled"
)

// TestRangesCoverTheStep cuts random steps at random places: every tile of every matmul falls
// into exactly one range.
func TestRangesCoverTheStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 300 {
		q := &matmulQueue{passState: &passState{workers: make([]workspace, 1+rng.IntN(9))}}
		tokens := []int{1, 40, 5000}[rng.IntN(3)] // with many tokens, the work exceeds the largest number of units
		for range 1 + rng.IntN(20) {
			lo := rng.IntN(3) * tiled.TileRows
			mul := matmul{w: &weights.Linear{Matrix: weights.Matrix{Cols: 32 * (1 + rng.IntN(99))}}, n: 1 + rng.IntN(tokens), lo: lo, hi: lo + rng.IntN(5000)}
			q.matmuls = append(q.matmuls, mul)
		}
		units, least := q.measureWork()
		require.LessOrEqual(t, units, threadpool.MaxUnits)
		next := make([]int, len(q.matmuls)) // next tile of each matmul
		for lo := 0; lo < units; {
			hi := min(units, lo+1+rng.IntN(4*least))
			for i := range q.matmuls {
				mul := &q.matmuls[i]
				require.Equal(t, next[i], mul.tileAt(lo<<q.shift))
				next[i] = mul.tileAt(hi << q.shift)
			}
			lo = hi
		}
		for i := range q.matmuls {
			require.Equal(t, q.matmuls[i].tiles(), next[i])
		}
	}
}
