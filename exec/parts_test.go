package exec

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant/tiled"
)

// Parts of random steps hold every row once, in order, begin with whole tiles,
// and are few; the last of a step is a small part of it.
func TestPartsCoverTheStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 300 {
		p := &pass{workers: make([]workspace, 1+rng.IntN(9))}
		total := 0
		for range 1 + rng.IntN(20) {
			lo := rng.IntN(3) * tiled.TileRows
			j := job{w: &linear{Matrix: Matrix{Cols: 32 * (1 + rng.IntN(99))}}, n: 1 + rng.IntN(40), lo: lo, hi: lo + rng.IntN(5000)}
			p.jobs = append(p.jobs, j)
			total += (j.hi - j.lo) * j.rowWork()
		}
		p.cutJobs()
		next := 0
		for i, j := range p.jobs {
			row := j.lo
			for ; next < len(p.parts) && p.parts[next].job == i; next++ {
				part := p.parts[next]
				require.Equal(t, row, part.lo)
				require.Greater(t, part.hi, part.lo)
				require.Zero(t, (part.lo-j.lo)%tiled.TileRows)
				row = part.hi
			}
			require.Equal(t, j.hi, row)
		}
		require.Len(t, p.parts, next)
		require.LessOrEqual(t, len(p.parts), mostParts(len(p.jobs), len(p.workers)))
		if threads := len(p.workers); threads > 1 && next > 0 {
			last := p.parts[next-1]
			j := &p.jobs[last.job]
			tile := tiled.TileRows * j.rowWork()
			require.LessOrEqual(t, (last.hi-last.lo)*j.rowWork(), max(tile, total/(smallestShare*threads)))
		}
	}
}
