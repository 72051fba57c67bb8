package exec

import (
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
)

// rowStep is something that is done with every row of the batch on its own: it
// needs nothing of other rows. Steps are put on a list, and done by whoever
// rounds the row for the next product, while it is in the core's cache. Results
// of products are written by all threads, so that reading them is expensive
// once, and would be again for each step of its own.
type rowStep struct {
	do       func(s *step, op *rowStep, row int)
	dst, src []float32     // [n, width]
	norm     *weights.Gain // of a normalization
	width    int
}

// rowOps are the row operations that wait, and the loop over rows that is running.
type rowOps struct {
	steps []rowStep

	rows, rowsPerPart   int
	rowDo               func(row, worker int)
	rowsPart, stepsPart func(part, worker int)
}

// makeParts makes method values, which allocate.
func (s *step) makeParts() { s.rowsPart, s.stepsPart = s.doRows, s.takeSteps }

// maxRowSteps is more than any family has between two products: normalizing and
// adding two branches, then normalizing for the next layer.
const maxRowSteps = 8

func (p *step) later(s rowStep) { p.steps = append(p.steps, s) }

// residual adds what a branch of the layer gave to the residual stream.
func (s *step) residual(branch []float32 /* [n, Dim] */) {
	s.later(rowStep{do: (*step).addRow, dst: s.x, src: branch, width: s.m.Spec.Dim})
}

func (p *step) addRow(s *rowStep, row int) {
	lo, hi := row*s.width, (row+1)*s.width
	if scale := p.m.Spec.ResidualScale; scale != 1 {
		quant.AddScaled(s.dst[lo:hi], s.src[lo:hi], scale)
		return
	}
	quant.Add(s.dst[lo:hi], s.src[lo:hi])
}

// normed returns where the normalized residual stream will be.
func (s *step) normed(g *weights.Gain) []float32 {
	s.normRows(s.h, s.x, g)
	return s.h
}

// normRows normalizes vectors of the model's width.
func (s *step) normRows(dst, src []float32 /* [n, Dim] */, g *weights.Gain) {
	s.later(rowStep{do: (*step).normRow, dst: dst, src: src, norm: g, width: s.m.Spec.Dim})
}

func (p *step) normRow(s *rowStep, row int) {
	lo, hi := row*s.width, (row+1)*s.width
	applyNorm(&p.m.Spec.Norm, s.dst[lo:hi], s.src[lo:hi], s.norm)
}

// takeSteps does the steps on the list for one row.
func (p *step) takeSteps(row, _ int) {
	for i := range p.steps {
		s := &p.steps[i]
		s.do(p, s, row)
	}
}

// settleRows does the steps on the list for all rows and empties it.
func (s *step) settleRows() {
	if len(s.steps) > 0 {
		s.overRows(s.n, s.stepsPart)
		s.steps = s.steps[:0]
	}
}

// overRows runs something for every row: on all threads when there are many.
func (s *step) overRows(n int, do func(row, worker int)) {
	if n < 4 {
		for i := range n {
			do(i, 0)
		}
		return
	}
	s.rows, s.rowsPerPart, s.rowDo = n, s.partRows(n), do
	s.m.workers.Run((n+s.rowsPerPart-1)/s.rowsPerPart, s.rowsPart)
}

// partRows returns how many neighbouring rows one thread takes at a time. Rounded
// rows of a tile share cache lines, which two cores should not write in turns; but
// each core should have a few parts, so that a slow one can have fewer.
func (s *step) partRows(n int) int {
	rows := 1
	for rows < tiled.TileTokens && 4*rows*len(s.workers) <= n {
		rows *= 2
	}
	return rows
}

func (s *step) doRows(part, worker int) {
	lo := part * s.rowsPerPart
	for row := lo; row < min(lo+s.rowsPerPart, s.rows); row++ {
		s.rowDo(row, worker)
	}
}
