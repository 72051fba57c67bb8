package exec

import "github.com/llmrun/llmrun/exec/weights"

const (
	// upRows is the most tokens of which an MLP has its two products, gate and up,
	// side by side. So few meet once less.
	upRows = 16
	// upColumns is how much of the second product a thread has at a time of more
	// tokens. What it has computed is still in its cache when it is used up.
	upColumns = 128
	// upColumnsWide is that with weights that tokens are brought to another form for:
	// once for each piece.
	upColumnsWide = 512
)

// columnsOfUp returns how much of up a thread has at a time of more than upRows
// tokens.
func (q *matmulQueue) columnsOfUp() int {
	if q.hasWideTypes() {
		return upColumnsWide
	}
	return upColumns
}

// mostUpTokens returns the most tokens of which an MLP has gate and up side by side: all
// of them where shadows are to be added to up before it activates gate, or rows of
// it come from another device.
func (q *matmulQueue) mostUpTokens() int {
	if q.outliers != nil || q.m.offload != nil {
		return q.chunk
	}
	return upRows
}

// queueInner puts the products on the list that make an MLP's inner vectors of n rows,
// which begin with row first of gate. Of a batch of more than mostUpTokens tokens they
// are activated too.
func (q *matmulQueue) queueInner(w *weights.MLP, in []float32, of []int32 /* [n] */, n, first int) {
	at := first * w.Up.Rows
	if q.m.Spec.Gated {
		q.queueRows(&w.Gate, in, of, n, q.gate[at:])
	}
	if q.n <= q.mostUpTokens() {
		q.queueRows(&w.Up, in, of, n, q.up[at:])
		return
	}
	q.matmuls = append(q.matmuls, matmul{w: &w.Up, x: in, of: of, n: n, y: q.gate[at:], activatesGate: true})
}

// multiplyActivating does the rows lo to hi of a product and combines gate with them:
// gate has the same rows of its own product, and gets the result.
func (q *matmulQueue) multiplyActivating(j *matmul, lo, hi, worker int) {
	columns := len(q.workers[worker].up) / q.chunk
	for ; lo < hi; lo += columns {
		end := min(lo+columns, hi)
		width := end - lo
		up := q.workers[worker].up[:j.n*width]
		q.multiplyInto(up, width, lo, j, lo, end, worker)
		for row := range j.n {
			gate := j.y[row*j.w.Rows+lo : row*j.w.Rows+end]
			q.activate(gate, gate, up[row*width:(row+1)*width])
		}
	}
}

// queueActivation combines gate and up into gate.
func (q *matmulQueue) queueActivation(width int) {
	q.queueRowOp(rowOp{do: (*step).activateRow, dst: q.gate, src: q.up, width: width})
}

func (s *step) activateRow(op *rowOp, row int) {
	lo, hi := row*op.width, (row+1)*op.width
	s.activate(op.dst[lo:hi], op.dst[lo:hi], op.src[lo:hi])
}
