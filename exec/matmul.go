package exec

import (
	"sync/atomic"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
)

// matmulQueue collects the matmuls of a step and runs them together: inputs are quantized
// once, and threads share all rows of all matrices.
type matmulQueue struct {
	*step
	matmuls      []matmul
	inputs       []matmulInput // what the jobs multiply, quantized
	quantized    []float32     // memory of inputs
	shift        int           // of work, see measureWork
	headReads    int           // how many times the stream has brought the output matrix
	submitsReads atomic.Bool   // the thread that runs the next part submits reads of pages first
	outliers     *outlierPass  // nil: without Options.W8A8
	offload      offloadPass

	quantizePart func(row, worker int)
}

// makeParts makes method values, which allocate.
func (q *matmulQueue) makeParts() { q.quantizePart = q.quantizeRow }

// maxMatmuls is more matmuls than any step has.
func (q *matmulQueue) maxMatmuls() int { return 2*q.m.Spec.Experts + 4 }

// matmul is one matrix product: y = x·wᵀ + bias for n rows of x.
type matmul struct {
	w     *weights.Linear
	x     []float32 // [n, Cols], or more rows of which of says which are multiplied
	of    []int32   // [n] the row of x that each is; nil: they are as they lie. Tiled weights only
	n     int
	y     []float32 // [n, Rows]
	input int       // index into pass.inputs, for tiled weights
	// activates: y is the gate of an MLP, which the product is combined with.
	activatesGate bool

	// What is done of it next: rows lo to hi, which are in data.
	lo, hi int
	data   []byte
	work   int // of what is next of the jobs before it, see measureWork
}

// matmulInput is what tiled weights are multiplied with: rounded once, used by all
// products of a step that read the same vectors.
type matmulInput struct {
	x    []float32 // [n, cols], see job
	of   []int32   // [n]
	cols int
	n    int
	// order of the elements, nil for their own
	order     []float32               // [cols]
	perTensor *weights.PerTensorInput // how all of it is rounded with one scale, nil: group by group
	acts      tiled.Activations
	row       int // index of its first row among all inputs' rows, each input's filled up to whole tiles
}

// queue puts a product on the list of the current step.
func (q *matmulQueue) queue(w *weights.Linear, x []float32, n int, y []float32) {
	q.queueRows(w, x, nil, n, y)
}

// queueRows is add for rows of x that lie anywhere: gathering is an index that
// rounding follows.
func (q *matmulQueue) queueRows(w *weights.Linear, x []float32, of []int32 /* [n] */, n int, y []float32) {
	if n > 0 {
		q.matmuls = append(q.matmuls, matmul{w: w, x: x, of: of, n: n, y: y})
	}
}

// row returns a row of what the job multiplies.
func (j *matmul) row(i int) []float32 { return rowOf(j.x, j.of, j.w.Cols, i) }

func rowOf(x []float32, of []int32, cols, i int) []float32 {
	if of != nil {
		i = int(of[i])
	}
	return x[i*cols : (i+1)*cols]
}

// run does all products of the list, divided over the threads by rows of
// the weights, and empties the list. What another device has of them it does
// meanwhile.
func (q *matmulQueue) run() {
	if observe := q.m.observe; observe != nil {
		q.flushRowOps()
		for i := range q.matmuls {
			j := &q.matmuls[i]
			observe(j.w, j.n, j.row)
		}
	}
	q.startOffload()
	q.quantizeInputs()
	q.runStage(false)
	q.runStage(true)
	q.finishOffload()
	q.outliers.add()
	q.matmuls = q.matmuls[:0]
}

// runStage does those products of the list that activate others, or those others:
// first the rows that are in memory of all of them, then of each the rest.
func (q *matmulQueue) runStage(activating bool) {
	if !q.beginStage(activating) {
		return
	}
	if q.outliers.wanted() {
		q.outliers.run()
	} else {
		q.runNext()
	}
	for i := range q.matmuls {
		q.matmuls[i].lo, q.matmuls[i].hi = 0, 0
	}
	for i := range q.matmuls {
		if j := &q.matmuls[i]; j.activatesGate == activating && j.w.Rest.Count > 0 {
			q.runStreamed(j)
		}
	}
}

// beginStage makes the rows in memory the next ones of a stage's matmuls, and reports whether
// the stage has any.
func (q *matmulQueue) beginStage(activating bool) (found bool) {
	for i := range q.matmuls {
		if j := &q.matmuls[i]; j.activatesGate == activating {
			j.lo, j.hi, j.data = 0, j.residentRows(), j.w.Data
			if q.defersResident(j) {
				j.hi = 0
			}
			found = true
		}
	}
	return found
}

// runNext does what is next of all jobs.
func (q *matmulQueue) runNext() {
	units, least := q.measureWork()
	q.m.workers.RunRange(units, least, q)
}

// quantizeInputs rounds what the list's tiled weights are multiplied with, and does
// what is on the list of steps for each row.
func (q *matmulQueue) quantizeInputs() {
	q.inputs = q.inputs[:0]
	memory, rows := q.quantized, 0
	for i := range q.matmuls {
		if j := &q.matmuls[i]; j.w.Tiled && (!j.allOffloaded() || j.w.HasShadow()) {
			memory, rows = q.addInput(j, memory, rows)
		}
	}
	if len(q.inputs) != 1 || q.inputs[0].of != nil || q.inputs[0].n != q.n {
		q.flushRowOps()
	}
	if len(q.inputs) == 1 {
		rows = q.inputs[0].n
	}
	q.forRows(rows, q.quantizePart)
	q.ops = q.ops[:0]
}

// addInput gives a matmul its quantized input: that of the matmul before, if it reads the same
// rows, or one in memory that is left, whose rows begin with row. It returns the memory and the
// row behind it.
func (q *matmulQueue) addInput(j *matmul, memory []float32, row int) ([]float32, int) {
	if last := len(q.inputs) - 1; last >= 0 && q.inputs[last].sameRows(j) {
		j.input = last
		return memory, row
	}
	j.input = len(q.inputs)
	q.inputs = append(q.inputs, matmulInput{x: j.x, of: j.of, cols: j.w.Cols, n: j.n, row: row, order: j.w.Order, perTensor: j.w.PerTensor})
	in := &q.inputs[j.input]
	in.acts.Use(memory, in.cols, in.n)
	row += (in.n + tiled.TileTokens - 1) / tiled.TileTokens * tiled.TileTokens
	return memory[tiled.FloatsNeeded(in.cols, in.n):], row
}

// sameRows reports whether a job multiplies the very rows of the input.
func (in *matmulInput) sameRows(j *matmul) bool {
	return &in.x[0] == &j.x[0] && same(in.of, j.of) && same(in.order, j.w.Order)
}

// same reports whether two slices are one.
func same[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// quantizeRow rounds one row of the inputs. Rows behind an input's last fill a tile up.
func (q *matmulQueue) quantizeRow(row, worker int) {
	i := 0
	for i+1 < len(q.inputs) && row >= q.inputs[i+1].row {
		i++
	}
	in := &q.inputs[i]
	row -= in.row
	if row >= in.n {
		return
	}
	q.runRowOps(row, worker)
	q.quantizeInto(i, row, in.inOrder(rowOf(in.x, in.of, in.cols, row), q.workers[worker].ordered))
}

// inOrder returns a row with its elements in the order of the weights' columns; memory holds it
// where that is another one.
func (in *matmulInput) inOrder(x, memory []float32 /* [cols] */) []float32 {
	if in.order == nil {
		return x
	}
	ordered := memory[:in.cols]
	for i, at := range in.order {
		ordered[i] = x[int(at)]
	}
	return ordered
}

// ordersPerStep returns in how many orders a step may round the same vectors.
func (q *matmulQueue) ordersPerStep() int {
	most := 1
	for l := range q.m.weights.Layers {
		w := &q.m.weights.Layers[l]
		for _, step := range [][]*weights.Linear{{&w.Q, &w.K, &w.V}, {&w.MLP.Gate, &w.MLP.Up}, {&w.Shared.Gate, &w.Shared.Up}} {
			n := 1
			for i, m := range step[1:] {
				if !same(step[i].Order, m.Order) {
					n++
				}
			}
			most = max(most, n)
		}
	}
	return most
}

// quantizedFloats returns the memory that the inputs of any step take.
func (q *matmulQueue) quantizedFloats() int {
	s := q.m.Spec
	w := q.widths()
	most := tiled.FloatsNeeded(max(s.Dim, s.Heads*s.HeadDim, w.inner)/tiled.GroupElems*tiled.GroupElems, q.chunk)
	// Experts share out the rows of a batch; each has its own tiles, which are
	// at most twice as wide as they need to be.
	cols := max(s.Dim, w.expertInner) / tiled.GroupElems * tiled.GroupElems
	most *= q.ordersPerStep()
	return max(most, 2*s.ExpertsUsed*q.chunk*tiled.FloatsNeeded(cols, 1))
}

// multiplyRows does the rows lo to hi of a job.
func (q *matmulQueue) multiplyRows(j *matmul, lo, hi, worker int) {
	if j.activatesGate {
		q.multiplyActivating(j, lo, hi, worker)
		return
	}
	q.multiplyInto(j.y, j.w.Rows, 0, j, lo, hi, worker)
}

// multiplyInto does the rows lo to hi of a job, for a matrix of results whose first
// column is that of row first.
func (q *matmulQueue) multiplyInto(y []float32 /* [n, width] */, width, first int, j *matmul, lo, hi, worker int) {
	ws := &q.workers[worker]
	if j.w.Tiled {
		m := tiled.Matrix{Type: j.w.Type, Rows: width, Cols: j.w.Cols, Data: j.data, First: (j.lo - first) / tiled.TileRows}
		tiles := (hi - first + tiled.TileRows - 1) / tiled.TileRows
		tiled.Multiply(y, &m, (lo-first)/tiled.TileRows, tiles, &q.inputs[j.input].acts, ws.tiles)
	} else {
		data := j.data[(lo-j.lo)*j.w.RowBytes():]
		quant.MulRows(y[lo-first:], width, j.w.Type, data, j.w.Cols, 0, hi-lo, j.x, j.n, ws.scratch)
	}
	if j.w.Bias == nil {
		return
	}
	for row := range j.n {
		quant.Add(y[row*width+lo-first:row*width+hi-first], j.w.Bias[lo:hi])
	}
}
