package exec

import "github.com/llmrun/llmrun/quant"

// job is one matrix product: y = x·wᵀ + bias for n rows of x.
type job struct {
	w *linear
	x []float32 // [n, Cols]
	n int
	y []float32 // [n, Rows]
}

// Rows of a matrix are handed out in parts that are large enough to be worth
// a hand-over and small enough that threads finish together.
const (
	minPartRows     = 16
	partsPerThread  = 8
	partRowMultiple = 8
)

// add puts a product on the list of the current step.
func (p *pass) add(w *linear, x []float32, n int, y []float32) {
	if n > 0 {
		p.jobs = append(p.jobs, job{w, x, n, y})
	}
}

// partRows returns how many rows of w make a part.
func (p *pass) partRows(w *linear) int {
	rows := max(minPartRows, w.Rows/(partsPerThread*len(p.workers)))
	return (rows + partRowMultiple - 1) &^ (partRowMultiple - 1)
}

// multiply does all products of the list, divided over the threads by rows of
// the weights, and empties the list.
func (p *pass) multiply() {
	total := 0
	p.parts = append(p.parts[:0], 0)
	for i := range p.jobs {
		w := p.jobs[i].w
		size := p.partRows(w)
		total += (w.Rows + size - 1) / size
		p.parts = append(p.parts, total)
	}
	p.m.workers.Run(total, p.mulPart)
	p.jobs = p.jobs[:0]
}

// mul does one part of the list.
func (p *pass) mul(part, worker int) {
	i := 0
	for part >= p.parts[i+1] {
		i++
	}
	j := &p.jobs[i]
	size := p.partRows(j.w)
	lo := (part - p.parts[i]) * size
	hi := min(lo+size, j.w.Rows)
	quant.MulRows(j.y, j.w.Rows, j.w.Type, j.w.Data, j.w.Cols, lo, hi, j.x, j.n, p.workers[worker].scratch)
	if j.w.bias == nil {
		return
	}
	for row := range j.n {
		quant.Add(j.y[row*j.w.Rows+lo:row*j.w.Rows+hi], j.w.bias[lo:hi])
	}
}
