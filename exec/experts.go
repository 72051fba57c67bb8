package exec

import (
	"math"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// experts computes the MLPs of the experts that the router chose for the rows of a batch.
type experts struct {
	*passState
	mm      *matmulQueue
	routing routing

	activatePart, choosePart, combinePart func(row, worker int)
}

// makeParts creates the method values once, because creating one allocates.
func (e *experts) makeParts() {
	e.activatePart, e.choosePart, e.combinePart = e.activateRouted, e.choose, e.combine
}

// routing is the assignment of a batch's rows to experts. A gathered row is a (row, expert)
// pair; gathered rows are numbered expert after expert.
type routing struct {
	logits  []float32 // [chunk, Experts]
	gates   []float32 // [chunk] weight of the shared expert
	chosen  []int32   // [chunk, Experts] gathered row of a chosen expert, -1 for the others
	weights []float32 // [chunk, Experts] weight of each chosen expert
	first   []int32   // [Experts+1] first gathered row of each expert
	source  []int32   // [chunk*ExpertsUsed] the batch's row of each gathered row
	x       []float32 // [n, Dim] the experts' input, in the order of the batch
	copies  []float32 // [chunk*ExpertsUsed, Dim] copies of gathered rows, see gather; nil if no expert needs them
	out     []float32 // [chunk*ExpertsUsed, Dim] output of each gathered row

	ready []int32 // [Experts] experts that run next: those in memory with gathered rows
	rows  []int32 // [chunk*ExpertsUsed] the gathered rows of these experts
	inner int     // width of their inner vectors
}

// carve takes the buffers of routing; copies says whether gathered rows need copies.
func (r *routing) carve(a *tiering.Arena, s *arch.Spec, chunk int, copies bool) {
	if s.Experts == 0 {
		return
	}
	gathered := chunk * s.ExpertsUsed
	r.logits, r.weights = a.Floats(chunk*s.Experts), a.Floats(chunk*s.Experts)
	r.gates = a.Floats(chunk)
	r.chosen, r.first = a.Int32s(chunk*s.Experts), a.Int32s(s.Experts+1)
	r.ready, r.rows, r.source = a.Int32s(s.Experts), a.Int32s(gathered), a.Int32s(gathered)
	r.out = a.Floats(gathered * s.Dim)
	if copies {
		r.copies = a.Floats(gathered * s.Dim)
	}
}

// choose chooses the experts of one row: softmax over all, the ExpertsUsed largest (the lower
// index wins a tie), and weights that sum to 1 if the family normalizes them.
func (e *experts) choose(row, _ int) {
	s, r := e.m.Spec, &e.routing
	probs := r.logits[row*s.Experts : (row+1)*s.Experts]
	weights := r.weights[row*s.Experts : (row+1)*s.Experts]
	scoreExperts(s, probs)
	chosen := r.chosen[row*s.Experts : (row+1)*s.Experts]
	s.Groups.Exclude(chosen, probs, e.w.RouterBias)
	used := takeLargest(chosen, weights, probs, e.w.RouterBias, s.ExpertsUsed)
	if s.NormTopK {
		for i := range weights {
			weights[i] /= used
		}
	}
	if s.RoutedScale != 1 {
		quant.Scale(weights, s.RoutedScale)
	}
}

// scoreExperts turns the router's results of a row into scores: sigmoids, or the softmax over all.
func scoreExperts(s *arch.Spec, probs []float32) {
	if s.DenseBeside {
		quant.Scale(probs, float32(1/math.Sqrt(float64(s.Dim))))
	}
	if s.RouterSigmoid {
		for i, x := range probs {
			probs[i] = quant.Sigmoid32(x)
		}
		return
	}
	_, total := quant.SoftmaxBlock(probs, len(probs))
	quant.Scale(probs, 1/total)
}

// takeLargest marks the n largest probabilities, each plus its bias, with 0 and all others with -1,
// copies them into weights, without the bias, and returns their sum. The lower index wins a tie.
func takeLargest(chosen []int32, weights, probs, bias []float32, n int) (sum float32) {
	for i := range chosen {
		if chosen[i] != arch.Excluded {
			chosen[i] = -1
		}
	}
	for range n {
		best, bestP := 0, float32(math.Inf(-1))
		for i, v := range probs {
			if bias != nil {
				v += bias[i]
			}
			if chosen[i] == -1 && v > bestP {
				best, bestP = i, v
			}
		}
		chosen[best], weights[best] = 0, probs[best]
		sum += probs[best]
	}
	return sum
}

// gather numbers the gathered rows, expert after expert. It does not copy rows for tiled weights:
// quantization reads a row once for each of its experts and finds it by index. Other weights need
// copies of their rows side by side.
func (e *experts) gather(in []float32 /* [n, Dim] */) {
	s, r := e.m.Spec, &e.routing
	r.x = in
	next := int32(0)
	for x := range s.Experts {
		r.first[x] = next
		for row := range e.n {
			if c := &r.chosen[row*s.Experts+x]; *c >= 0 {
				*c = next
				e.assignRow(next, x, row)
				next++
			}
		}
	}
	r.first[s.Experts] = next
}

// assignRow assigns a row of the batch to the gathered row of an expert.
func (e *experts) assignRow(at int32, expert, row int) {
	r, dim := &e.routing, e.m.Spec.Dim
	r.source[at] = int32(row)
	if !e.w.Experts[expert].IndexesRows() {
		copy(r.copies[int(at)*dim:][:dim], r.x[row*dim:(row+1)*dim])
	}
}

// needsCopies reports whether any expert needs copies of its gathered rows.
func (e *experts) needsCopies() bool {
	for l := range e.m.weights.Layers {
		experts := e.m.weights.Layers[l].Experts
		for x := range experts {
			if !experts[x].IndexesRows() {
				return true
			}
		}
	}
	return false
}

// run computes the MLPs of all chosen experts: those in memory first, then the others as their
// reads complete. No result depends on the order.
func (e *experts) run() {
	r, cache := &e.routing, e.m.experts
	if cache == nil {
		r.listChosen()
		e.runReady()
		return
	}
	cache.Submit(e.index, r.first)
	for {
		if r.ready, e.err = cache.WaitReady(e.ctx, r.ready[:0]); e.err != nil || len(r.ready) == 0 {
			return
		}
		e.runReady()
		cache.Release(r.ready)
	}
}

// listChosen lists the experts that the router chose for any row.
func (r *routing) listChosen() {
	r.ready = r.ready[:0]
	for e := range len(r.first) - 1 {
		if r.first[e+1] > r.first[e] {
			r.ready = append(r.ready, int32(e))
		}
	}
}

// runReady computes the MLPs of the experts in ready.
func (e *experts) runReady() {
	s, r := e.m.Spec, &e.routing
	r.inner = e.w.Experts[0].Up.Rows
	r.rows = r.rows[:0]
	for _, id := range r.ready {
		e.queueExpert(id)
	}
	e.mm.run()
	if e.n <= e.mm.maxUpTokens() {
		e.forRows(len(r.rows), e.activatePart)
	}
	for _, id := range r.ready {
		lo, n := r.rowsOf(id)
		e.mm.queueRows(&e.w.Experts[id].Down, e.gate[lo*r.inner:], nil, r.source[lo:lo+n], n, r.out[lo*s.Dim:])
	}
	e.mm.run()
}

// queueExpert queues the first matmuls of an expert for its gathered rows.
func (e *experts) queueExpert(id int32) {
	r := &e.routing
	lo, n := r.rowsOf(id)
	expert, x, rowIndex := &e.w.Experts[id], r.x, r.source[lo:lo+n]
	if !expert.IndexesRows() {
		x, rowIndex = r.copies[lo*e.m.Spec.Dim:], nil
	}
	e.mm.queueInner(expert, x, rowIndex, r.source[lo:lo+n], n, lo)
	for row := range n {
		r.rows = append(r.rows, int32(lo+row))
	}
}

// rowsOf returns the gathered rows of an expert.
func (r *routing) rowsOf(e int32) (first, count int) {
	return int(r.first[e]), int(r.first[e+1] - r.first[e])
}

// activateRouted combines gate and up of a gathered row of the running experts into gate.
func (e *experts) activateRouted(i, _ int) {
	width := e.routing.inner
	lo := int(e.routing.rows[i]) * width
	e.activate(e.gate[lo:lo+width], e.gate[lo:lo+width], e.up[lo:lo+width])
}

// combine adds up the outputs of a row's experts in the order of their indices. So the result does
// not depend on the order in which the experts were computed.
func (e *experts) combine(row, _ int) {
	s, r := e.m.Spec, &e.routing
	out := e.ffn[row*s.Dim : (row+1)*s.Dim]
	clear(out)
	for x := range s.Experts {
		if c := int(r.chosen[row*s.Experts+x]); c >= 0 {
			quant.AddScaled(out, r.out[c*s.Dim:(c+1)*s.Dim], r.weights[row*s.Experts+x])
		}
	}
}

// With a dense MLP beside the experts, both read the residual stream through norms of their own, and so
// does the router; the sum of their normalized outputs is that of the layer's MLP.

// routerInput returns the input of the router: in, unless there is a dense MLP, which it computes.
func (p *pass) routerInput(in []float32 /* [n, Dim] */) []float32 {
	if !p.m.Spec.DenseBeside {
		return in
	}
	p.runMLP(&p.w.MLP, in, p.mix)
	p.queueNormRows(p.mix, p.mix, &p.w.Beside.DenseOutput)
	return p.queueNorm(&p.w.Beside.Router)
}

// expertInput returns the input of the experts: in, unless there is a dense MLP.
func (p *pass) expertInput(in []float32 /* [n, Dim] */) []float32 {
	if p.m.Spec.DenseBeside {
		in = p.queueNorm(&p.w.Beside.Experts)
		p.flushRowOps()
	}
	return in
}

// addDense adds the output of the dense MLP to that of the experts.
func (p *pass) addDense() {
	if p.m.Spec.DenseBeside {
		p.queueNormRows(p.ffn, p.ffn, &p.w.Beside.ExpertsOutput)
		p.queueRowOp(rowOp{do: (*passState).addRow, dst: p.ffn, src: p.mix, width: p.m.Spec.Dim})
	}
}
