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
	do       func(p *pass, s *rowStep, row int)
	dst, src []float32     // [n, width]
	norm     *weights.Gain // of a normalization
	width    int
}

// maxRowSteps is more than any family has between two products: normalizing and
// adding two branches, then normalizing for the next layer.
const maxRowSteps = 8

func (p *pass) later(s rowStep) { p.steps = append(p.steps, s) }

// residual adds what a branch of the layer gave to the residual stream.
func (p *pass) residual(branch []float32 /* [n, Dim] */) {
	p.later(rowStep{do: (*pass).addRow, dst: p.x, src: branch, width: p.m.Spec.Dim})
}

func (p *pass) addRow(s *rowStep, row int) {
	lo, hi := row*s.width, (row+1)*s.width
	if scale := p.m.Spec.ResidualScale; scale != 1 {
		quant.AddScaled(s.dst[lo:hi], s.src[lo:hi], scale)
		return
	}
	quant.Add(s.dst[lo:hi], s.src[lo:hi])
}

// normed returns where the normalized residual stream will be.
func (p *pass) normed(g *weights.Gain) []float32 {
	p.normRows(p.h, p.x, g)
	return p.h
}

// normRows normalizes vectors of the model's width.
func (p *pass) normRows(dst, src []float32 /* [n, Dim] */, g *weights.Gain) {
	p.later(rowStep{do: (*pass).normRow, dst: dst, src: src, norm: g, width: p.m.Spec.Dim})
}

func (p *pass) normRow(s *rowStep, row int) {
	lo, hi := row*s.width, (row+1)*s.width
	applyNorm(&p.m.Spec.Norm, s.dst[lo:hi], s.src[lo:hi], s.norm)
}

// takeSteps does the steps on the list for one row.
func (p *pass) takeSteps(row, _ int) {
	for i := range p.steps {
		s := &p.steps[i]
		s.do(p, s, row)
	}
}

// settleRows does the steps on the list for all rows and empties it.
func (p *pass) settleRows() {
	if len(p.steps) > 0 {
		p.overRows(p.n, p.stepsPart)
		p.steps = p.steps[:0]
	}
}

// overRows runs something for every row: on all threads when there are many.
func (p *pass) overRows(n int, do func(row, worker int)) {
	if n < 4 {
		for i := range n {
			do(i, 0)
		}
		return
	}
	p.rows, p.rowsPerPart, p.rowDo = n, p.partRows(n), do
	p.m.workers.Run((n+p.rowsPerPart-1)/p.rowsPerPart, p.rowsPart)
}

// partRows returns how many neighbouring rows one thread takes at a time. Rounded
// rows of a tile share cache lines, which two cores should not write in turns; but
// each core should have a few parts, so that a slow one can have fewer.
func (p *pass) partRows(n int) int {
	rows := 1
	for rows < tiled.TileTokens && 4*rows*len(p.workers) <= n {
		rows *= 2
	}
	return rows
}

func (p *pass) doRows(part, worker int) {
	lo := part * p.rowsPerPart
	for row := lo; row < min(lo+p.rowsPerPart, p.rows); row++ {
		p.rowDo(row, worker)
	}
}
