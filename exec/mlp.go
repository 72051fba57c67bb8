package exec

import (
	"github.com/llmrun/llmrun/exec/altup"
	"github.com/llmrun/llmrun/exec/weights"
)

const (
	// upTokens is the maximum number of tokens for which an MLP computes gate and up in one
	// stage, which saves a barrier.
	upTokens = 16
	// upColumns is the number of columns of up that a thread computes at a time with more tokens.
	// The result is still in the core's cache when the thread combines it with gate.
	upColumns = 128
	// upColumnsWide is upColumns for weights whose kernels convert the tokens once for each
	// slice.
	upColumnsWide = 512
)

// upSliceColumns returns the number of columns of up that a thread computes at a time with more
// than upTokens tokens.
func (q *matmulQueue) upSliceColumns() int {
	if q.hasWideTypes() {
		return upColumnsWide
	}
	return upColumns
}

// maxUpTokens returns the maximum number of tokens for which an MLP computes gate and up in one
// stage. It is the whole chunk if the outlier path or another device must first contribute to up.
func (q *matmulQueue) maxUpTokens() int {
	if q.outliers != nil || q.m.offload != nil {
		return q.chunk
	}
	return upTokens
}

// queueInner queues the matmuls of an MLP's inner vectors for n rows; first is their first row
// in gate. With more than maxUpTokens tokens the matmul of up also activates gate.
func (q *matmulQueue) queueInner(w *weights.MLP, in []float32, rowIndex, source []int32 /* [n] */, n, first int) {
	at := first * w.Up.Rows
	if q.m.Spec.Gated {
		q.queueRows(&w.Gate, in, rowIndex, source, n, q.gate[at:])
	}
	if q.layer.Sparse && q.n > q.maxUpTokens() { // the whole gate determines what it keeps
		q.run()
		q.queueSparsity(w.Up.Rows)
	}
	if q.n <= q.maxUpTokens() {
		q.queueRows(&w.Up, in, rowIndex, source, n, q.up[at:])
		return
	}
	q.matmuls = append(q.matmuls, matmul{w: &w.Up, x: in, rowIndex: rowIndex, source: source, n: n, y: q.gate[at:], activatesGate: true, high: q.high})
}

// multiplyActivating computes the rows lo to hi of up in slices, and combines each with the same
// columns of gate. The result is in gate.
func (q *matmulQueue) multiplyActivating(mul *matmul, lo, hi, worker int) {
	columns := len(q.workers[worker].up) / q.chunk
	for ; lo < hi; lo += columns {
		end := min(lo+columns, hi)
		width := end - lo
		up := q.workers[worker].up[:mul.n*width]
		q.multiplyInto(up, width, lo, mul, lo, end, worker)
		for row := range mul.n {
			gate := mul.y[row*mul.w.Rows+lo : row*mul.w.Rows+end]
			q.activate(gate, gate, up[row*width:(row+1)*width])
		}
	}
}

// queueActivation queues the combination of gate and up into gate.
func (q *matmulQueue) queueActivation(width int) {
	if q.layer.Sparse {
		q.queueSparsity(width)
	}
	q.queueRowOp(rowOp{do: (*passState).activateRow, dst: q.gate, src: q.up, width: width})
}

// queueSparsity queues the choice of what the gates of a sparse MLP keep.
func (q *matmulQueue) queueSparsity(width int) {
	q.queueRowOp(rowOp{do: sparsifyRow, dst: q.gate, width: width, scale: q.layer.Deviations})
}

func sparsifyRow(_ *passState, op *rowOp, row int) {
	altup.Sparsify(op.dst[row*op.width:(row+1)*op.width], op.scale)
}

// activateRow combines a row of gate (dst) with the same row of up (src).
func (s *passState) activateRow(op *rowOp, row int) {
	lo, hi := row*op.width, (row+1)*op.width
	s.activate(op.dst[lo:hi], op.dst[lo:hi], op.src[lo:hi])
}
