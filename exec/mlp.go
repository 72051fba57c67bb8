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
	if q.multipliesWide() {
		return upColumnsWide
	}
	return upColumns
}

// mostUp returns the most tokens of which an MLP has gate and up side by side: all
// of them where shadows are to be added to up before it activates gate, or rows of
// it come from another device.
func (q *matmulQueue) mostUp() int {
	if q.shadow != nil || q.m.away != nil {
		return q.chunk
	}
	return upRows
}

// mlp computes the dense feed-forward part.
func (p *pass) mlp(in []float32 /* [n, Dim] */) {
	p.runMLP(&p.w.MLP, in, p.ffn)
}

// runMLP computes one MLP for all rows of the batch.
func (p *pass) runMLP(w *weights.MLP, in, out []float32 /* [n, Dim] */) {
	p.mm.addInner(w, in, nil, p.n, 0)
	p.foresee(&w.Down)
	p.mm.multiply()
	if p.n <= p.mm.mostUp() {
		p.mm.activated(w.Up.Rows)
	}
	p.mm.add(&w.Down, p.gate, p.n, out)
	p.foreseeLayer(p.index + 1)
	p.mm.multiply()
}

// addInner puts the products on the list that make an MLP's inner vectors of n rows,
// which begin with row first of gate. Of a batch of more than mostUp tokens they
// are activated too.
func (q *matmulQueue) addInner(w *weights.MLP, in []float32, of []int32 /* [n] */, n, first int) {
	at := first * w.Up.Rows
	if q.m.Spec.Gated {
		q.addRows(&w.Gate, in, of, n, q.gate[at:])
	}
	if q.n <= q.mostUp() {
		q.addRows(&w.Up, in, of, n, q.up[at:])
		return
	}
	q.jobs = append(q.jobs, job{w: &w.Up, x: in, of: of, n: n, y: q.gate[at:], activates: true})
}

// mulActivating does the rows lo to hi of a product and combines gate with them:
// gate has the same rows of its own product, and gets the result.
func (q *matmulQueue) mulActivating(j *job, lo, hi, worker int) {
	columns := len(q.workers[worker].up) / q.chunk
	for ; lo < hi; lo += columns {
		end := min(lo+columns, hi)
		width := end - lo
		up := q.workers[worker].up[:j.n*width]
		q.mulInto(up, width, lo, j, lo, end, worker)
		for row := range j.n {
			gate := j.y[row*j.w.Rows+lo : row*j.w.Rows+end]
			q.activate(gate, gate, up[row*width:(row+1)*width])
		}
	}
}

// activated combines gate and up into gate.
func (q *matmulQueue) activated(width int) {
	q.later(rowStep{do: (*step).activateRow, dst: q.gate, src: q.up, width: width})
}

func (p *step) activateRow(s *rowStep, row int) {
	lo, hi := row*s.width, (row+1)*s.width
	p.activate(s.dst[lo:hi], s.dst[lo:hi], s.src[lo:hi])
}
