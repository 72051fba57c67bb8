package exec

import (
	"slices"

	"github.com/llmrun/llmrun/exec/arch"
)

// After its keys and values, the last layer computes only the rows whose logits are wanted. In a
// prompt, that is one token.

// prunes reports whether the current layer is the last one and only some rows of the batch
// continue past its keys and values. An observer sees all rows, so it disables pruning.
func (s *passState) prunes() bool {
	return s.index == len(s.m.Spec.Layers)-1 && len(s.batch.want) < len(s.batch.ids) && s.m.observe == nil &&
		s.layer.Mixer != arch.AttentionAndRecurrent
}

// anyWanted reports whether any of some neighbouring rows continues past the keys and values of
// the current layer.
func (s *passState) anyWanted(row, count int) bool {
	if !s.prunes() {
		return true
	}
	want := s.batch.want
	next, _ := slices.BinarySearch(want, row) // want is ascending
	return next < len(want) && want[next] < row+count
}

// pruneRows compacts the rows that continue, in the residual stream, its normalized copy and
// attention's output.
func (p *pass) pruneRows() {
	if !p.prunes() {
		return
	}
	p.flushRowOps()
	dim, att := p.m.Spec.Dim, p.m.Spec.Heads*p.layer.ValueDim
	for i, row := range p.batch.want { // ascending, so i <= row
		moveRow(p.x, i, row, dim)
		moveRow(p.h, i, row, dim)
		moveRow(p.att, i, row, att)
		if p.layer.Mixer == arch.Recurrent {
			moveRow(p.mixers.in, i, row, p.m.Spec.Recurrence.Inner())
		}
		p.own.prune(i, row)
		if p.qgate != nil {
			moveRow(p.qgate, i, row, att)
		}
	}
	p.mm.beside.prune(p.batch.want)
	p.n = len(p.batch.want)
}

func moveRow(rows []float32, to, from, width int) {
	if to != from {
		copy(rows[to*width:(to+1)*width], rows[from*width:(from+1)*width])
	}
}
