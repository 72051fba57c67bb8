package exec

import (
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/quant/tiled"
)

// The matmuls of a step form one range of work, measured in multiply-adds. Threads cut it
// anywhere; the owner of a range computes the row tiles that begin in it.

// workFraction is the most parts that a thread's fair amount of a step is cut into.
const workFraction = 32

// measureWork adds up the work of the next rows of all matmuls. It returns the total in units of
// 1<<q.shift, and the fewest units that a thread should take at a time.
func (q *matmulQueue) measureWork() (units, least int) {
	work, tile := 0, 0
	for i := range q.matmuls {
		j := &q.matmuls[i]
		j.workBefore = work
		work += j.tiles() * j.tileWork()
		if j.tiles() > 0 {
			tile = max(tile, j.tileMultiple()*j.tileWork())
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

// Range computes the row tiles that begin in a range of the step's work.
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

// tileAt returns the matmul's first tile that begins at or after the given work.
func (j *matmul) tileAt(work int) int {
	if work <= j.workBefore || j.tiles() == 0 {
		return 0
	}
	each := j.tileMultiple() * j.tileWork()
	return min(j.tiles(), (work-j.workBefore+each-1)/each*j.tileMultiple())
}

// tileMultiple returns the multiple of tiles that parts consist of: kernels for one token
// compute two tiles together, and would compute an odd one twice.
func (j *matmul) tileMultiple() int {
	if j.n == 1 {
		return 2
	}
	return 1
}

// tiles returns the number of row tiles that run next.
func (j *matmul) tiles() int { return (j.hi - j.lo + tiled.TileRows - 1) / tiled.TileRows }

// tileWork returns the multiply-adds of one row tile.
func (j *matmul) tileWork() int { return j.w.Cols * j.n * tiled.TileRows }
