package exec

// delivery hands values of rows to their callers: those of several callers at the same time, because choosing a token of a large
// vocabulary takes long where it draws among all of them.
type delivery struct {
	rows    []int
	logits  []float32                // [rows, Vocab]; nil if all callers want hidden states
	callers []int                    // index in rows of the first one of each caller
	part    func(caller, worker int) // deliverCaller, created once because creating it allocates
}

// deliver passes what callers want of rows: their logits, or the hidden states in h.
func (p *pass) deliver(rows []int, logits []float32 /* [rows, Vocab] */) {
	d := &p.delivery
	d.rows, d.logits, d.callers = rows, logits, d.callers[:0]
	for i, row := range rows {
		if i == 0 || p.batch.draft == nil && p.batch.runOf(row).caller() != p.batch.runOf(rows[i-1]).caller() {
			d.callers = append(d.callers, i)
		}
	}
	if len(d.callers) == 1 {
		p.deliverCaller(0, 0)
	} else {
		p.m.workers.Run(len(d.callers), d.part)
	}
	d.rows, d.logits = nil, nil
}

// deliverCaller passes on the rows of a caller, in order.
func (p *pass) deliverCaller(caller, _ int) {
	d := &p.delivery
	end := len(d.rows)
	if caller+1 < len(d.callers) {
		end = d.callers[caller+1]
	}
	for i := d.callers[caller]; i < end; i++ {
		row, values, width := d.rows[i], d.logits, p.m.Spec.Vocab
		if p.batch.wantsHidden(row) || p.m.Spec.Headless {
			values, width = p.h, p.m.Spec.Dim
		}
		p.batch.deliver(row, values[i*width:(i+1)*width])
	}
}
