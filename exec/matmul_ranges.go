package exec

import (
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/quant/tiled"
)

// The matmuls of a step form one range of work, measured in multiply-adds. Threads cut it
// anywhere; the owner of a range computes the row tiles that begin in it.

// workFraction is the maximum number of parts into which a thread's even portion of a step is cut.
const workFraction = 32

// measureWork adds up the work of the next rows of all matmuls. It returns the total in units of
// 1<<q.shift, and the minimum number of units that a thread should take at a time.
func (q *matmulQueue) measureWork() (units, least int) {
	work, tile := 0, 0
	for i := range q.matmuls {
		mul := &q.matmuls[i]
		mul.workBefore = work
		work += mul.tiles() * mul.tileWork()
		if mul.tiles() > 0 {
			tile = max(tile, mul.tileMultiple()*mul.tileWork())
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
		mul := &q.matmuls[i]
		first, end := mul.tileAt(lo), mul.tileAt(hi)
		if first < end {
			q.multiplyRows(mul, mul.lo+first*tiled.TileRows, min(mul.lo+end*tiled.TileRows, mul.hi), worker)
		}
	}
}

// tileAt returns the matmul's first tile that begins at or after the given work.
func (mul *matmul) tileAt(work int) int {
	if work <= mul.workBefore || mul.tiles() == 0 {
		return 0
	}
	each := mul.tileMultiple() * mul.tileWork()
	return min(mul.tiles(), (work-mul.workBefore+each-1)/each*mul.tileMultiple())
}

// tileMultiple returns the number of tiles that a part must be divisible into. Kernels for one
// token compute two tiles together, and would compute an odd one twice.
func (mul *matmul) tileMultiple() int {
	if mul.n == 1 {
		return 2
	}
	return 1
}

// tiles returns the number of row tiles that run next.
func (mul *matmul) tiles() int { return (mul.hi - mul.lo + tiled.TileRows - 1) / tiled.TileRows }

// tileWork returns the multiply-adds of one row tile.
func (mul *matmul) tileWork() int { return mul.w.Cols * mul.n * tiled.TileRows }

// joinedBytes returns the memory in which a thread joins planes.
func joinedBytes(m *Model) (most int) {
	if !m.nested {
		return 0
	}
	add := func(w *weights.Linear) {
		if w.Low != nil {
			most = max(most, tiled.JoinedBytes(w.Type, w.Cols))
		}
	}
	add(&m.weights.Head)
	for l := range m.weights.Layers {
		for _, d := range m.weights.Layers[l].Dense() {
			add(d.Matrix)
		}
	}
	return most
}

// multiplyPlanes is multiplyInto for a matrix in two planes.
func (q *matmulQueue) multiplyPlanes(y []float32 /* [n, width] */, width, first int, mul *matmul, lo, hi, worker int) {
	ws := &q.workers[worker]
	whole := tiled.Matrix{Type: mul.w.Type, Rows: width, Cols: mul.w.Cols, Data: mul.w.Data, First: -first / tiled.TileRows}
	planes := tiled.Planes{High: whole, Low: whole, Plane: mul.w.Plane}
	planes.Low.Data, planes.Low.First = mul.data, (mul.lo-first)/tiled.TileRows
	from, to := (lo-first)/tiled.TileRows, (hi-first+tiled.TileRows-1)/tiled.TileRows
	acts := &q.inputs[mul.input].acts
	if mul.high {
		tiled.MultiplyHigh(y, &planes, from, to, acts, ws.tiles, ws.joined)
	} else {
		tiled.MultiplyPlanes(y, &planes, from, to, acts, ws.tiles, ws.joined)
	}
}
