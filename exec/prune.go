package exec

import "slices"

// Behind its keys and values the last layer does nothing for other tokens: what is
// left of it is needed where logits are asked for. Of a prompt that is one token.

// prunes reports whether the present layer is the last one and not all rows of the
// batch go on through it. Who observes sees all.
func (s *step) prunes() bool {
	return s.index == len(s.m.Spec.Layers)-1 && len(s.batch.want) < len(s.batch.ids) && s.m.observe == nil
}

// anyWanted reports whether one of some neighbouring rows goes on behind the keys and values
// of the present layer.
func (s *step) anyWanted(row, count int) bool {
	if !s.prunes() {
		return true
	}
	want := s.batch.want
	next, _ := slices.BinarySearch(want, row) // they are ascending
	return next < len(want) && want[next] < row+count
}

// pruneRows moves the rows that go on together: of the residual stream, of its
// normalized copy and of what attention gave.
func (p *pass) pruneRows() {
	if !p.prunes() {
		return
	}
	p.flushRowOps()
	dim, att := p.m.Spec.Dim, p.m.Spec.Heads*p.m.Spec.HeadDim
	for i, row := range p.batch.want { // which are ascending: i <= row
		moveRow(p.x, i, row, dim)
		moveRow(p.h, i, row, dim)
		moveRow(p.att, i, row, att)
	}
	p.n = len(p.batch.want)
}

func moveRow(rows []float32, to, from, width int) {
	if to != from {
		copy(rows[to*width:(to+1)*width], rows[from*width:(from+1)*width])
	}
}
