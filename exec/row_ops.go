package exec

import (
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
)

// rowOp is something that is done with every row of the batch on its own: it
// needs nothing of other rows. Steps are put on a list, and done by whoever
// rounds the row for the next product, while it is in the core's cache. Results
// of products are written by all threads, so that reading them is expensive
// once, and would be again for each step of its own.
type rowOp struct {
	do       func(s *step, op *rowOp, row int)
	dst, src []float32     // [n, width]
	norm     *weights.Gain // of a normalization
	width    int
}

// rowOps are the row operations that wait, and the loop over rows that is running.
type rowOps struct {
	ops []rowOp

	rows, rowsPerPart    int
	rowFunc              func(row, worker int)
	rowsPart, rowOpsPart func(part, worker int)
}

// makeParts makes method values, which allocate.
func (s *step) makeParts() { s.rowsPart, s.rowOpsPart = s.runRows, s.runRowOps }

// maxRowOps is more than any family has between two products: normalizing and
// adding two branches, then normalizing for the next layer.
const maxRowOps = 8

func (s *step) queueRowOp(op rowOp) { s.ops = append(s.ops, op) }

// queueResidual adds what a branch of the layer gave to the residual stream.
func (s *step) queueResidual(branch []float32 /* [n, Dim] */) {
	s.queueRowOp(rowOp{do: (*step).addRow, dst: s.x, src: branch, width: s.m.Spec.Dim})
}

func (s *step) addRow(op *rowOp, row int) {
	lo, hi := row*op.width, (row+1)*op.width
	if scale := s.m.Spec.ResidualScale; scale != 1 {
		quant.AddScaled(op.dst[lo:hi], op.src[lo:hi], scale)
		return
	}
	quant.Add(op.dst[lo:hi], op.src[lo:hi])
}

// queueNorm returns where the normalized residual stream will be.
func (s *step) queueNorm(g *weights.Gain) []float32 {
	s.queueNormRows(s.h, s.x, g)
	return s.h
}

// queueNormRows normalizes vectors of the model's width.
func (s *step) queueNormRows(dst, src []float32 /* [n, Dim] */, g *weights.Gain) {
	s.queueRowOp(rowOp{do: (*step).normRow, dst: dst, src: src, norm: g, width: s.m.Spec.Dim})
}

func (s *step) normRow(op *rowOp, row int) {
	lo, hi := row*op.width, (row+1)*op.width
	applyNorm(&s.m.Spec.Norm, op.dst[lo:hi], op.src[lo:hi], op.norm)
}

// runRowOps does the steps on the list for one row.
func (s *step) runRowOps(row, _ int) {
	for i := range s.ops {
		op := &s.ops[i]
		op.do(s, op, row)
	}
}

// flushRowOps does the steps on the list for all rows and empties it.
func (s *step) flushRowOps() {
	if len(s.ops) > 0 {
		s.forRows(s.n, s.rowOpsPart)
		s.ops = s.ops[:0]
	}
}

// forRows runs something for every row: on all threads when there are many.
func (s *step) forRows(n int, do func(row, worker int)) {
	if n < 4 {
		for i := range n {
			do(i, 0)
		}
		return
	}
	s.rows, s.rowsPerPart, s.rowFunc = n, s.rowsPerThread(n), do
	s.m.workers.Run((n+s.rowsPerPart-1)/s.rowsPerPart, s.rowsPart)
}

// rowsPerThread returns how many neighbouring rows one thread takes at a time. Rounded
// rows of a tile share cache lines, which two cores should not write in turns; but
// each core should have a few parts, so that a slow one can have fewer.
func (s *step) rowsPerThread(n int) int {
	rows := 1
	for rows < tiled.TileTokens && 4*rows*len(s.workers) <= n {
		rows *= 2
	}
	return rows
}

func (s *step) runRows(part, worker int) {
	lo := part * s.rowsPerPart
	for row := lo; row < min(lo+s.rowsPerPart, s.rows); row++ {
		s.rowFunc(row, worker)
	}
}
