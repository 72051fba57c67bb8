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
	jobs    []job
	inputs  []input     // what the jobs multiply, quantized
	rounded []float32   // memory of inputs
	shift   int         // of work, see measureJobs
	headRun int         // how many times the stream has brought the output matrix
	feeds   atomic.Bool // the thread that runs the next part submits reads of pages first
	shadow  *shadowPass // nil: without Options.W8A8
	away    awayPass

	roundPart func(row, worker int)
}

// makeParts makes method values, which allocate.
func (q *matmulQueue) makeParts() { q.roundPart = q.round }

// maxJobs is more matmuls than any step has.
func (q *matmulQueue) maxJobs() int { return 2*q.m.Spec.Experts + 4 }

// job is one matrix product: y = x·wᵀ + bias for n rows of x.
type job struct {
	w     *weights.Linear
	x     []float32 // [n, Cols], or more rows of which of says which are multiplied
	of    []int32   // [n] the row of x that each is; nil: they are as they lie. Tiled weights only
	n     int
	y     []float32 // [n, Rows]
	input int       // index into pass.inputs, for tiled weights
	// activates: y is the gate of an MLP, which the product is combined with.
	activates bool

	// What is done of it next: rows lo to hi, which are in data.
	lo, hi int
	data   []byte
	work   int // of what is next of the jobs before it, see measureJobs
}

// input is what tiled weights are multiplied with: rounded once, used by all
// products of a step that read the same vectors.
type input struct {
	x    []float32 // [n, cols], see job
	of   []int32   // [n]
	cols int
	n    int
	// order of the elements, nil for their own
	order []float32               // [cols]
	whole *weights.PerTensorInput // how all of it is rounded with one scale, nil: group by group
	acts  tiled.Activations
	row   int // index of its first row among all inputs' rows, each input's filled up to whole tiles
}

// add puts a product on the list of the current step.
func (q *matmulQueue) add(w *weights.Linear, x []float32, n int, y []float32) {
	q.addRows(w, x, nil, n, y)
}

// addRows is add for rows of x that lie anywhere: gathering is an index that
// rounding follows.
func (q *matmulQueue) addRows(w *weights.Linear, x []float32, of []int32 /* [n] */, n int, y []float32) {
	if n > 0 {
		q.jobs = append(q.jobs, job{w: w, x: x, of: of, n: n, y: y})
	}
}

// row returns a row of what the job multiplies.
func (j *job) row(i int) []float32 { return rowOf(j.x, j.of, j.w.Cols, i) }

func rowOf(x []float32, of []int32, cols, i int) []float32 {
	if of != nil {
		i = int(of[i])
	}
	return x[i*cols : (i+1)*cols]
}

// multiply does all products of the list, divided over the threads by rows of
// the weights, and empties the list. What another device has of them it does
// meanwhile.
func (q *matmulQueue) multiply() {
	if observe := q.m.observe; observe != nil {
		q.settleRows()
		for i := range q.jobs {
			j := &q.jobs[i]
			observe(j.w, j.n, j.row)
		}
	}
	q.startAway()
	q.roundInputs()
	q.products(false)
	q.products(true)
	q.finishAway()
	q.shadow.add()
	q.jobs = q.jobs[:0]
}

// products does those products of the list that activate others, or those others:
// first the rows that are in memory of all of them, then of each the rest.
func (q *matmulQueue) products(activating bool) {
	some := false
	for i := range q.jobs {
		if j := &q.jobs[i]; j.activates == activating {
			j.lo, j.hi, j.data = 0, j.here(), j.w.Data
			if q.leaves(j) {
				j.hi = 0
			}
			some = true
		}
	}
	if !some {
		return
	}
	if q.shadow.wanted() {
		q.shadow.run()
	} else {
		q.runJobs()
	}
	for i := range q.jobs {
		q.jobs[i].lo, q.jobs[i].hi = 0, 0
	}
	for i := range q.jobs {
		if j := &q.jobs[i]; j.activates == activating && j.w.Rest.Count > 0 {
			q.multiplyStreamed(j)
		}
	}
}

// runJobs does what is next of all jobs.
func (q *matmulQueue) runJobs() {
	units, least := q.measureJobs()
	q.m.workers.RunRange(units, least, q)
}

// roundInputs rounds what the list's tiled weights are multiplied with, and does
// what is on the list of steps for each row.
func (q *matmulQueue) roundInputs() {
	q.inputs = q.inputs[:0]
	memory, rows := q.rounded, 0
	for i := range q.jobs {
		j := &q.jobs[i]
		if !j.w.Tiled || j.allAway() && !j.w.HasShadow() {
			continue
		}
		if last := len(q.inputs) - 1; last >= 0 && q.inputs[last].rowsOf(j) {
			j.input = last
			continue
		}
		j.input = len(q.inputs)
		q.inputs = append(q.inputs, input{x: j.x, of: j.of, cols: j.w.Cols, n: j.n, row: rows, order: j.w.Order, whole: j.w.PerTensor})
		in := &q.inputs[j.input]
		in.acts.Use(memory, in.cols, in.n)
		memory = memory[tiled.FloatsNeeded(in.cols, in.n):]
		rows += (in.n + tiled.TileTokens - 1) / tiled.TileTokens * tiled.TileTokens
	}
	if len(q.inputs) != 1 || q.inputs[0].of != nil || q.inputs[0].n != q.n {
		q.settleRows()
	}
	if len(q.inputs) == 1 {
		rows = q.inputs[0].n
	}
	q.overRows(rows, q.roundPart)
	q.steps = q.steps[:0]
}

// rowsOf reports whether a job multiplies the very rows of the input.
func (in *input) rowsOf(j *job) bool {
	return &in.x[0] == &j.x[0] && same(in.of, j.of) && same(in.order, j.w.Order)
}

// same reports whether two slices are one.
func same[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// round rounds one row of the inputs. Rows behind an input's last fill a tile up.
func (q *matmulQueue) round(row, worker int) {
	i := 0
	for i+1 < len(q.inputs) && row >= q.inputs[i+1].row {
		i++
	}
	in := &q.inputs[i]
	row -= in.row
	if row >= in.n {
		return
	}
	q.takeSteps(row, worker)
	x := rowOf(in.x, in.of, in.cols, row)
	if in.order != nil {
		ordered := q.workers[worker].ordered[:in.cols]
		for i, at := range in.order {
			ordered[i] = x[int(at)]
		}
		x = ordered
	}
	q.setRow(i, row, x)
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

// roundedFloats returns the memory that the inputs of any step take.
func (q *matmulQueue) roundedFloats() int {
	s := q.m.Spec
	w := q.widths()
	most := tiled.FloatsNeeded(max(s.Dim, s.Heads*s.HeadDim, w.inner)/tiled.GroupElems*tiled.GroupElems, q.chunk)
	// Experts share out the rows of a batch; each has its own tiles, which are
	// at most twice as wide as they need to be.
	cols := max(s.Dim, w.expertInner) / tiled.GroupElems * tiled.GroupElems
	most *= q.ordersPerStep()
	return max(most, 2*s.ExpertsUsed*q.chunk*tiled.FloatsNeeded(cols, 1))
}

// mul does the rows lo to hi of a job.
func (q *matmulQueue) mul(j *job, lo, hi, worker int) {
	if j.activates {
		q.mulActivating(j, lo, hi, worker)
		return
	}
	q.mulInto(j.y, j.w.Rows, 0, j, lo, hi, worker)
}

// mulInto does the rows lo to hi of a job, for a matrix of results whose first
// column is that of row first.
func (q *matmulQueue) mulInto(y []float32 /* [n, width] */, width, first int, j *job, lo, hi, worker int) {
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
