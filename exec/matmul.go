package exec

import (
	"sync/atomic"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
)

// matmulQueue collects the matmuls of a step and runs them together: it quantizes each input
// once, and all threads share the rows of all matrices.
type matmulQueue struct {
	*passState
	matmuls      []matmul
	inputs       []matmulInput // quantized inputs of the matmuls
	quantized    []float32     // memory of inputs
	shift        int           // log2 of a work unit, see measureWork
	headReads    int           // how often this pass has run the output matrix
	submitsReads atomic.Bool   // if set, the first thread of the next run also submits page reads
	outliers     *outlierPass  // nil without Options.W8A8
	beside       *besidePass   // nil without adapters beside the weights
	offload      offloadPass

	quantizePart func(row, worker int)
}

// makeParts creates the method values once, because creating one allocates.
func (q *matmulQueue) makeParts() { q.quantizePart = q.quantizeRow }

// maxMatmuls returns an upper bound on the number of matmuls in a step.
func (q *matmulQueue) maxMatmuls() int { return 2*q.m.Spec.Experts + q.m.Spec.Heads + 4 }

// matmul is one matrix product: y = scale·x·wᵀ + bias for n rows of x.
type matmul struct {
	w        *weights.Linear
	x        []float32 // [n, Cols], or more rows, from which rowIndex selects n
	rowIndex []int32   // [n] indices of the rows in x; nil: the first n. Tiled weights only
	n        int
	y        []float32 // [n, Rows]
	source   []int32   // [n] rows of the batch to which those of x belong; nil: the first n
	input    int       // index into matmulQueue.inputs, for tiled weights
	// activatesGate: the weights are an MLP's up matrix, and y holds gate. The matmul combines
	// slices of its result with gate instead of storing them.
	activatesGate bool
	high          bool // computes with the high plane alone, see Draft

	// The rows of w that run next: lo to hi, whose weights are in data. Of a matrix in two planes, data has
	// the low one; the high one is in memory.
	lo, hi     int
	data       []byte
	workBefore int // work of the matmuls before it in the queue, see measureWork

	inner       []float32 // [n, besideWidth] A·x of adapters beside the weights; nil: none
	partsBefore int       // parts of A·x of the matmuls before it
}

// matmulInput is the quantized input of tiled weights. All matmuls of a step that read the same
// vectors share it.
type matmulInput struct {
	x        []float32 // [n, cols], see matmul
	rowIndex []int32   // [n]
	cols     int
	n        int
	// column order of the weights, nil for the natural one
	order     []float32               // [cols]
	perTensor *weights.PerTensorInput // quantization with one scale, nil: with a scale for each group
	acts      tiled.Activations
	firstRow  int // its first row among the rows of all inputs; each input is padded to whole tiles
}

// queue queues a matmul for the current step.
func (q *matmulQueue) queue(w *weights.Linear, x []float32, n int, y []float32) {
	q.queueRows(w, x, nil, nil, n, y)
}

// queueRows is queue for rows of x that are selected by index. Quantization follows the index,
// so the rows are not copied. source has the rows of the batch to which they belong, nil for the same.
func (q *matmulQueue) queueRows(w *weights.Linear, x []float32, rowIndex, source []int32 /* [n] */, n int, y []float32) {
	if n > 0 && w.Present() { // some layers have no keys and values of their own
		q.matmuls = append(q.matmuls, matmul{w: w, x: x, rowIndex: rowIndex, source: source, n: n, y: y, high: q.high})
	}
}

// row returns a row of the matmul's input.
func (mul *matmul) row(i int) []float32 { return rowOf(mul.x, mul.rowIndex, mul.w.Cols, i) }

// rowOf returns row i of x, or row rowIndex[i] if there is an index.
func rowOf(x []float32, rowIndex []int32, cols, i int) []float32 {
	if rowIndex != nil {
		i = int(rowIndex[i])
	}
	return x[i*cols : (i+1)*cols]
}

// run runs the queued matmuls, split over the threads by rows of the weights, and empties the
// queue. Another device computes its offloaded rows at the same time.
func (q *matmulQueue) run() {
	if observe := q.m.observe; observe != nil {
		q.flushRowOps()
		for i := range q.matmuls {
			mul := &q.matmuls[i]
			observe(mul.w, mul.n, mul.row)
		}
	}
	q.startOffload()
	q.quantizeInputs()
	q.beside.run()
	q.runStage(false)
	q.runStage(true)
	q.finishOffload()
	q.outliers.add()
	q.beside.addOffloaded()
	q.matmuls = q.matmuls[:0]
}

// runStage runs the queued matmuls that activate a gate, or the others: first the resident rows
// of all of them, then the streamed rows of each.
func (q *matmulQueue) runStage(activating bool) {
	if !q.beginStage(activating) {
		return
	}
	if q.outliers.needed() {
		q.outliers.run()
	} else {
		q.runNext()
	}
	for i := range q.matmuls {
		q.matmuls[i].lo, q.matmuls[i].hi = 0, 0
	}
	for i := range q.matmuls {
		if mul := &q.matmuls[i]; mul.activatesGate == activating && mul.cpuRows() > mul.residentRows() {
			q.runStreamed(mul)
		}
	}
}

// beginStage sets the resident rows as the next rows of a stage's matmuls and reports whether
// the stage has any matmul.
func (q *matmulQueue) beginStage(activating bool) (found bool) {
	for i := range q.matmuls {
		if mul := &q.matmuls[i]; mul.activatesGate == activating {
			mul.lo, mul.hi, mul.data = 0, mul.residentRows(), mul.w.LastPlane().Data
			if q.defersResident(mul) {
				mul.hi = 0
			}
			found = true
		}
	}
	return found
}

// runNext runs the next rows of all matmuls.
func (q *matmulQueue) runNext() {
	units, least := q.measureWork()
	q.m.workers.RunRange(units, least, q)
}

// quantizeInputs quantizes the inputs of the queued matmuls with tiled weights. It runs the
// queued row operations in the same loop if there is a single input.
func (q *matmulQueue) quantizeInputs() {
	q.inputs = q.inputs[:0]
	memory, rows := q.quantized, 0
	for i := range q.matmuls {
		if mul := &q.matmuls[i]; mul.w.Tiled && (!mul.allOffloaded() || mul.w.HasOutlierPath()) {
			memory, rows = q.addInput(mul, memory, rows)
		}
	}
	if len(q.inputs) != 1 || q.inputs[0].rowIndex != nil || q.inputs[0].n != q.n {
		q.flushRowOps()
	}
	if len(q.inputs) == 1 {
		rows = q.inputs[0].n
	}
	q.forRows(rows, q.quantizePart)
	q.ops = q.ops[:0]
}

// addInput assigns a matmul its quantized input: the previous matmul's if both read the same
// rows, otherwise a new one in the remaining memory, beginning at row. It returns the memory and
// the row that follow.
func (q *matmulQueue) addInput(mul *matmul, memory []float32, row int) ([]float32, int) {
	if last := len(q.inputs) - 1; last >= 0 && q.inputs[last].readsSameRows(mul) {
		mul.input = last
		return memory, row
	}
	mul.input = len(q.inputs)
	q.inputs = append(q.inputs, matmulInput{x: mul.x, rowIndex: mul.rowIndex, cols: mul.w.Cols, n: mul.n, firstRow: row, order: mul.w.Order, perTensor: mul.w.PerTensor})
	in := &q.inputs[mul.input]
	in.acts.Use(memory, in.cols, in.n)
	row += (in.n + tiled.TileTokens - 1) / tiled.TileTokens * tiled.TileTokens
	return memory[tiled.FloatsNeeded(in.cols, in.n):], row
}

// readsSameRows reports whether a matmul reads exactly the rows of the input, in its order of
// columns.
func (in *matmulInput) readsSameRows(mul *matmul) bool {
	return &in.x[0] == &mul.x[0] && sameSlice(in.rowIndex, mul.rowIndex) && sameSlice(in.order, mul.w.Order)
}

// sameSlice reports whether two slices are identical: the same memory and length.
func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// quantizeRow quantizes one row of the inputs. Rows past an input's last pad its last tile.
func (q *matmulQueue) quantizeRow(row, worker int) {
	i := 0
	for i+1 < len(q.inputs) && row >= q.inputs[i+1].firstRow {
		i++
	}
	in := &q.inputs[i]
	row -= in.firstRow
	if row >= in.n {
		return
	}
	q.runRowOps(row, worker)
	q.quantizeInto(i, row, in.inOrder(rowOf(in.x, in.rowIndex, in.cols, row), q.workers[worker].orderedRow))
}

// inOrder returns a row in the column order of the weights. It uses memory if that differs from
// the natural order.
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

// ordersPerStep returns the maximum number of column orders in which a step quantizes the same
// vectors.
func (q *matmulQueue) ordersPerStep() int {
	most := 1
	if q.m.Spec.PerLayer > 0 || q.m.Spec.LaurelRank > 0 {
		most = 2 // a layer's own embedding begins with two inputs of the model's width, Laurel ends beside attention
	}
	for l := range q.m.weights.Layers {
		w := &q.m.weights.Layers[l]
		for _, step := range [][]*weights.Linear{{&w.Q, &w.K, &w.V}, {&w.MLP.Gate, &w.MLP.Up}, {&w.Shared.Gate, &w.Shared.Up}} {
			n := 1
			for i, m := range step[1:] {
				if !sameSlice(step[i].Order, m.Order) {
					n++
				}
			}
			most = max(most, n)
		}
	}
	return most
}

// quantizedFloats returns the memory of the quantized inputs of the largest step.
func (q *matmulQueue) quantizedFloats() int {
	s := q.m.Spec
	w := q.widths()
	most := tiled.FloatsNeeded(max(s.Dim, s.Heads*s.HeadDim, w.inner, s.PerLayer, s.Latent.QRank)/tiled.GroupElems*tiled.GroupElems, q.chunk)
	// Each expert has its own tiles for its gathered rows, padded to at most twice their number.
	cols := max(s.Dim, w.expertInner) / tiled.GroupElems * tiled.GroupElems
	most *= q.ordersPerStep()
	if l := s.Latent; l.Rank > 0 { // each head has its own tiles
		most = max(most, s.Heads*tiled.FloatsNeeded((max(l.Nope, l.Rank)+tiled.GroupElems-1)/tiled.GroupElems*tiled.GroupElems, q.chunk))
	}
	return max(most, 2*s.ExpertsUsed*q.chunk*tiled.FloatsNeeded(cols, 1))
}

// multiplyRows computes the rows lo to hi of a matmul.
func (q *matmulQueue) multiplyRows(mul *matmul, lo, hi, worker int) {
	if mul.activatesGate {
		q.multiplyActivating(mul, lo, hi, worker)
		return
	}
	q.multiplyInto(mul.y, mul.w.Rows, 0, mul, lo, hi, worker)
}

// multiplyInto computes the rows lo to hi of a matmul into y, a matrix of width columns whose
// first column belongs to the row first.
func (q *matmulQueue) multiplyInto(y []float32 /* [n, width] */, width, first int, mul *matmul, lo, hi, worker int) {
	ws := &q.workers[worker]
	q.beside.prefetch(mul, lo, hi)
	if mul.w.Low != nil {
		q.multiplyPlanes(y, width, first, mul, lo, hi, worker)
	} else if mul.w.Tiled {
		m := tiled.Matrix{Type: mul.w.Type, Rows: width, Cols: mul.w.Cols, Data: mul.data, First: (mul.lo - first) / tiled.TileRows}
		tiles := (hi - first + tiled.TileRows - 1) / tiled.TileRows
		if probe := &q.m.probe; probe.w == mul.w {
			tiled.MultiplyHighOf(y, &m, probe.plane, (lo-first)/tiled.TileRows, tiles, &q.inputs[mul.input].acts, ws.tiles)
		} else {
			tiled.Multiply(y, &m, (lo-first)/tiled.TileRows, tiles, &q.inputs[mul.input].acts, ws.tiles)
		}
	} else {
		data := mul.data[(lo-mul.lo)*mul.w.RowBytes():]
		quant.MulRows(y[lo-first:], width, mul.w.Type, data, mul.w.Cols, 0, hi-lo, mul.x, mul.n, ws.scratch)
	}
	for row := range mul.n {
		mul.scaleAndBias(y[row*width+lo-first:row*width+hi-first], lo)
	}
	q.beside.addTo(y, width, first, mul, lo, hi, worker)
}

// scaleAndBias applies the matrix's scale and bias to the results of rows from first on.
func (mul *matmul) scaleAndBias(y []float32, first int) {
	if mul.w.Scale != nil {
		quant.Scale(y, mul.w.Scale[0])
	}
	if mul.w.Bias != nil {
		quant.Add(y, mul.w.Bias[first:first+len(y)])
	}
}
