package exec

import (
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/quant/tiled"
)

// The products of a step are one range of work, counted in products of elements,
// that threads cut anywhere: whoever has a range computes the tiles of rows that
// begin in it.

// workFraction bounds how short the parts of a step get: this fraction of a
// thread's share of it.
const workFraction = 32

// measureWork adds up the work of what is next of all jobs. It returns it in
// units of 1<<p.shift, and the fewest that a thread should take at a time.
func (q *matmulQueue) measureWork() (units, least int) {
	work, tile := 0, 0
	for i := range q.matmuls {
		j := &q.matmuls[i]
		j.work = work
		work += j.tiles() * j.tileWork()
		if j.tiles() > 0 {
			tile = max(tile, j.tileRun()*j.tileWork())
		}
	}
	q.shift = 0
	for work>>q.shift >= threadpool.MaxUnits {
		q.shift++
	}
	least = max(tile, work/(workFraction*len(q.workers)))
	unit := 1<<q.shift - 1
	return (work + unit) >> q.shift, (least + unit) >> q.shift
}

// Range computes the tiles that begin in a range of the step's work.
func (q *matmulQueue) Range(lo, hi, worker int) {
	if q.submitsReads.Load() && q.submitsReads.CompareAndSwap(true, false) {
		q.m.kvReader.Submit()
	}
	lo, hi = lo<<q.shift, hi<<q.shift
	for i := range q.matmuls {
		j := &q.matmuls[i]
		first, end := j.tileAt(lo), j.tileAt(hi)
		if first < end {
			q.multiplyRows(j, j.lo+first*tiled.TileRows, min(j.lo+end*tiled.TileRows, j.hi), worker)
		}
	}
}

// tileAt returns the first tile of the job that begins at so much work or after it.
func (j *matmul) tileAt(work int) int {
	if work <= j.work || j.tiles() == 0 {
		return 0
	}
	each := j.tileRun() * j.tileWork()
	return min(j.tiles(), (work-j.work+each-1)/each*j.tileRun())
}

// tileRun returns of how many tiles parts are a multiple: kernels for one token go
// through two runs of tiles, and an odd one would be computed twice.
func (j *matmul) tileRun() int {
	if j.n == 1 {
		return 2
	}
	return 1
}

// tiles returns how many tiles of rows are next.
func (j *matmul) tiles() int { return (j.hi - j.lo + tiled.TileRows - 1) / tiled.TileRows }

// tileWork returns how many products of elements a tile of rows takes.
func (j *matmul) tileWork() int { return j.w.Cols * j.n * tiled.TileRows }
