package exec

import (
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
)

// rowOp is an operation on each row of the batch that needs no other row. Row operations are
// queued, and the thread that quantizes a row for the next matmul runs them on that row first,
// while the row is in the core's cache. All threads write parts of a matmul's result, so the
// first read of a row fetches it from other cores; a separate loop per operation would pay that
// price each time.
type rowOp struct {
	do       func(s *passState, op *rowOp, row int)
	dst, src []float32     // [n, width]
	norm     *weights.Gain // for normRow
	width    int
	scale    float32 // for scaleBranch and sparsifyRow
	first    bool    // for altUp.joinRow
}

// rowOps holds the queued row operations and the state of the running loop over rows.
type rowOps struct {
	ops []rowOp

	rows, rowsPerPart    int
	rowFunc              func(row, worker int)
	rowsPart, rowOpsPart func(part, worker int)
}

// makeParts creates the method values once, because creating one allocates.
func (s *passState) makeParts() { s.rowsPart, s.rowOpsPart = s.runRows, s.runRowOps }

// maxRowOps is more than any family queues between two matmul runs: normalize and add two
// branches, then normalize for the next layer.
const maxRowOps = 8

func (s *passState) queueRowOp(op rowOp) { s.ops = append(s.ops, op) }

// queueResidual queues the addition of a branch's output to the residual stream.
func (s *passState) queueResidual(branch []float32 /* [n, Dim] */) {
	s.queueRowOp(rowOp{do: (*passState).addRow, dst: s.x, src: branch, width: s.m.Spec.Dim})
}

// addRow adds a row of src to dst, scaled by the family's residual scale.
func (s *passState) addRow(op *rowOp, row int) {
	lo, hi := row*op.width, (row+1)*op.width
	if scale := s.m.Spec.ResidualScale; scale != 1 {
		quant.AddScaled(op.dst[lo:hi], op.src[lo:hi], scale)
		return
	}
	quant.Add(op.dst[lo:hi], op.src[lo:hi])
}

// queueNorm queues a normalization of the residual stream and returns the buffer that will hold
// the result.
func (s *passState) queueNorm(g *weights.Gain) []float32 {
	s.queueNormRows(s.h, s.x, g)
	return s.h
}

// queueSumNorm queues the norm of the residual stream itself, in families that have one behind each sum.
func (s *passState) queueSumNorm(g *weights.Gain) {
	if s.m.Spec.SumNorm {
		s.queueNormRows(s.x, s.x, g)
	}
}

// queueNormRows queues the normalization of vectors of the model's width.
func (s *passState) queueNormRows(dst, src []float32 /* [n, Dim] */, g *weights.Gain) {
	s.queueRowOp(rowOp{do: (*passState).normRow, dst: dst, src: src, norm: g, width: s.m.Spec.Dim})
}

// queueScale queues the multiplication of a branch's output.
func queueScale(s *passState, branch []float32 /* [n, Dim] */, scale float32) {
	if scale != 0 && scale != 1 {
		s.queueRowOp(rowOp{do: scaleBranch, dst: branch, width: s.m.Spec.Dim, scale: scale})
	}
}

func scaleBranch(_ *passState, op *rowOp, row int) {
	quant.Scale(op.dst[row*op.width:(row+1)*op.width], op.scale)
}

// sumRow adds a row of src to the same row of dst.
func sumRow(_ *passState, op *rowOp, row int) {
	lo, hi := row*op.width, (row+1)*op.width
	quant.Add(op.dst[lo:hi], op.src[lo:hi])
}

// gateRow multiplies a row of dst by the sigmoids of the same row of src.
func gateRow(_ *passState, op *rowOp, row int) {
	lo, hi := row*op.width, (row+1)*op.width
	quant.SigmoidMul(op.dst[lo:hi], op.src[lo:hi])
}

func (s *passState) normRow(op *rowOp, row int) {
	lo, hi := row*op.width, (row+1)*op.width
	applyNorm(&s.m.Spec.Norm, op.dst[lo:hi], op.src[lo:hi], op.norm)
}

// runRowOps runs the queued operations on one row.
func (s *passState) runRowOps(row, _ int) {
	for i := range s.ops {
		op := &s.ops[i]
		op.do(s, op, row)
	}
}

// flushRowOps runs the queued operations on all rows and empties the queue.
func (s *passState) flushRowOps() {
	if len(s.ops) > 0 {
		s.forRows(s.n, s.rowOpsPart)
		s.ops = s.ops[:0]
	}
}

// forRows calls do for each row, on all threads if there are at least four rows.
func (s *passState) forRows(n int, do func(row, worker int)) {
	if n < 4 {
		for i := range n {
			do(i, 0)
		}
		return
	}
	s.rows, s.rowsPerPart, s.rowFunc = n, s.rowsPerThread(n), do
	s.m.workers.Run((n+s.rowsPerPart-1)/s.rowsPerPart, s.rowsPart)
}

// rowsPerThread returns how many neighbouring rows a thread takes at a time. Quantized rows of a
// tile share cache lines, which two cores should not write alternately; but each core should get
// several parts, so that a slow core can take fewer.
func (s *passState) rowsPerThread(n int) int {
	rows := 1
	for rows < tiled.TileTokens && 4*rows*len(s.workers) <= n {
		rows *= 2
	}
	return rows
}

// runRows calls rowFunc for the rows of one part.
func (s *passState) runRows(part, worker int) {
	lo := part * s.rowsPerPart
	for row := lo; row < min(lo+s.rowsPerPart, s.rows); row++ {
		s.rowFunc(row, worker)
	}
}

// applyNorm normalizes one vector.
func applyNorm(n *arch.NormSpec, dst, src []float32, g *weights.Gain) {
	if n.Layer {
		quant.LayerNorm(dst, src, g.Weight, g.Bias, n.Eps)
		return
	}
	quant.RMSNorm(dst, src, g.Weight, n.Eps, n.Offset)
}
