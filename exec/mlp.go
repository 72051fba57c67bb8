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
func (p *pass) columnsOfUp() int {
	if p.multipliesWide() {
		return upColumnsWide
	}
	return upColumns
}

// mostUp returns the most tokens of which an MLP has gate and up side by side: all
// of them where shadows are to be added to up before it activates gate, or rows of
// it come from another device.
func (p *pass) mostUp() int {
	if p.shadow != nil || p.m.away != nil {
		return p.chunk
	}
	return upRows
}

// mlp computes the dense feed-forward part.
func (p *pass) mlp(in []float32 /* [n, Dim] */) {
	p.runMLP(&p.w.MLP, in, p.ffn)
}

// runMLP computes one MLP for all rows of the batch.
func (p *pass) runMLP(w *weights.MLP, in, out []float32 /* [n, Dim] */) {
	p.addInner(w, in, nil, p.n, 0)
	p.foresee(&w.Down)
	p.multiply()
	if p.n <= p.mostUp() {
		p.activated(w.Up.Rows)
	}
	p.add(&w.Down, p.gate, p.n, out)
	p.foreseeLayer(p.index + 1)
	p.multiply()
}

// addInner puts the products on the list that make an MLP's inner vectors of n rows,
// which begin with row first of gate. Of a batch of more than mostUp tokens they
// are activated too.
func (p *pass) addInner(w *weights.MLP, in []float32, of []int32 /* [n] */, n, first int) {
	at := first * w.Up.Rows
	if p.m.Spec.Gated {
		p.addRows(&w.Gate, in, of, n, p.gate[at:])
	}
	if p.n <= p.mostUp() {
		p.addRows(&w.Up, in, of, n, p.up[at:])
		return
	}
	p.jobs = append(p.jobs, job{w: &w.Up, x: in, of: of, n: n, y: p.gate[at:], activates: true})
}

// mulActivating does the rows lo to hi of a product and combines gate with them:
// gate has the same rows of its own product, and gets the result.
func (p *pass) mulActivating(j *job, lo, hi, worker int) {
	columns := len(p.workers[worker].up) / p.chunk
	for ; lo < hi; lo += columns {
		end := min(lo+columns, hi)
		width := end - lo
		up := p.workers[worker].up[:j.n*width]
		p.mulInto(up, width, lo, j, lo, end, worker)
		for row := range j.n {
			gate := j.y[row*j.w.Rows+lo : row*j.w.Rows+end]
			p.act(gate, gate, up[row*width:(row+1)*width])
		}
	}
}

// activated combines gate and up into gate.
func (p *pass) activated(width int) {
	p.later(rowStep{do: (*pass).activateRow, dst: p.gate, src: p.up, width: width})
}

func (p *pass) activateRow(s *rowStep, row int) {
	lo, hi := row*s.width, (row+1)*s.width
	p.act(s.dst[lo:hi], s.dst[lo:hi], s.src[lo:hi])
}
