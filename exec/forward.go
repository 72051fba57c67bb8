package exec

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// One token, from its id to its logits, in the order of this file:
//
//	Extend           joins its tokens with those of other sequences, see sharedPasses
//	forward          begins the reads of pages on flash
//	  embed          copies the embedding row of each token into the residual stream x
//	                 [wait: rows on flash]
//	  runLayer       once for each layer:
//	    runAttention   QKV matmul [wait: weights], rope, append K and V, attention over pages
//	                   on flash [wait: KV] and pages in memory, output matmul
//	    runMLP         gate and up matmul, activation, down matmul, or
//	    runExperts     router, the chosen experts [wait: experts], their weighted sum
//	    own.run        the layer's own embedding of the token [wait: rows on flash]; own.alt has
//	                   the other residual streams
//	  output         final norm, lm head, logits to the caller
//	  commit         the tokens become part of their sequences
//
// A method named queue… puts work on a list and returns at once; the next matmul run, or
// flushRowOps, runs it. All other methods are complete when they return.

// forward passes one batch of tokens through the model. The caller holds m.mu and has reserved KV
// slots. It allocates nothing. If it fails or is cancelled, the sequences stay unchanged. An error of a
// callback is no error of the pass: its sequence gets the tokens that were computed. With mapped
// weights, a read error of the file arrives as a memory fault, which forward returns as an error.
func (m *Model) forward(ctx context.Context, b *Batch) (err error) {
	if m.offloadedLayers.all() {
		return forwardOffloaded(ctx, m, b)
	}
	if m.residency != nil && m.residency.Mapped {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() {
			if fault := m.residency.FaultOf(recover()); fault != nil {
				err = fault
			}
		}()
	}
	if err := preparePass(ctx, m, b); err != nil {
		return err
	}
	if err := m.pass.run(ctx, b); err != nil {
		return err
	}
	if err := m.residency.CheckMapped(ctx); err != nil {
		return err
	}
	finishPass(m, b)
	return nil
}

// finishPass ends a pass that succeeded: its tokens become part of their sequences.
func finishPass(m *Model, b *Batch) {
	if b.draft != nil {
		m.kvReader.Finish()
		return
	}
	if s := m.stream(); s != nil {
		s.Finish()
	}
	m.kvReader.Finish()
	m.countCold(b)
	b.commit()
}

// preparePass makes the model ready for a batch: it retries allocations that a Replan could not
// make, promotes mapped weights, and begins the reads of pages on flash.
func preparePass(ctx context.Context, m *Model, b *Batch) error {
	if err := m.retryAllocations(); err != nil {
		return err
	}
	m.promote()
	if err := m.residency.ScanMapped(); err != nil {
		return err
	}
	return beginReads(ctx, m, b)
}

// beginReads begins the reads of pages on flash. A plan that keeps all pages in memory counts no ring for
// them, but some are on flash if the budget was smaller before, or if several sequences have more pages than
// the plan counts. Then the pages in memory make room for the ring: first with what they do not use, then
// some of them move to flash too.
func beginReads(ctx context.Context, m *Model, b *Batch) error {
	err := m.kvReader.Begin(b)
	if !errors.Is(err, tiering.ErrBudget) {
		return err
	}
	m.cache.Compact()
	if err = m.kvReader.Begin(b); !errors.Is(err, tiering.ErrBudget) {
		return err
	}
	ring := m.kvReader.UseLeastRing()
	if err = m.kvReader.Begin(b); !errors.Is(err, tiering.ErrBudget) {
		return err
	}
	if spillErr := m.cache.Yield(ctx, ring); spillErr != nil {
		return errors.Join(err, spillErr)
	}
	b.findSharedAgain(m)
	return m.kvReader.Begin(b)
}

// run passes a batch through all layers and the output.
func (p *pass) run(ctx context.Context, b *Batch) error {
	p.begin(ctx, b)
	p.embed()
	for l := range p.m.weights.Layers {
		if p.failed() {
			return p.err
		}
		p.runLayer(l)
	}
	if p.failed() {
		return p.err
	}
	if p.m.offloadedLayers != nil {
		return runOffloadedLayers(ctx, p.m, b)
	}
	return p.output()
}

// begin sets the pass up for a batch and computes the rotary angles of its positions.
func (p *pass) begin(ctx context.Context, b *Batch) {
	p.ctx, p.err = ctx, nil
	p.batch, p.n, p.high = b, len(b.ids), b.draft != nil
	p.reset()
	p.mm.beside.begin(b)
	if s := p.m.stream(); s != nil && !p.high {
		s.Begin((len(b.want) + headRows - 1) / headRows)
	}
	if p.m.experts != nil {
		p.m.experts.Begin(p.n)
	}
	p.mm.headReads = 0
	p.own.begin()
	for i := range p.m.Spec.Ropes {
		p.rotaryAngles(i)
	}
}

// rotaryAngles computes the cosines and sines of one rotary table for all rows.
func (p *pass) rotaryAngles(table int) {
	t := &p.m.Spec.Ropes[table]
	half := t.Dim / 2
	for _, r := range p.batch.runs {
		for j := range r.count {
			at := (r.row + j) * half
			t.Angles(p.cos[table][at:at+half], p.sin[table][at:at+half], r.pos+j, r.seq.longRope)
		}
	}
}

// reset clears state that a failed pass left behind; a fault can end a pass at any point.
func (p *pass) reset() {
	p.mm.offload.cancel()
	p.mm.matmuls, p.ops = p.mm.matmuls[:0], p.ops[:0]
	p.attn.sharesSpans = false
}

// embed copies the embedding rows of the tokens into the residual stream.
func (p *pass) embed() {
	s := p.m.Spec
	p.err = p.m.embedding.Lookup(p.ctx, p.x, p.batch.ids, p.raw)
	if p.err == nil && s.EmbedScale != 1 {
		quant.Scale(p.x[:p.n*s.Dim], s.EmbedScale)
	}
	p.encode()
	p.own.noteFirst()
}

// runLayer passes the residual stream through one layer.
func (p *pass) runLayer(l int) {
	s := p.m.Spec
	p.setLayer(l)
	p.w = &p.m.weights.Layers[l]

	if p.err = p.m.residency.CheckEvicted(l); p.err != nil {
		return
	}
	if p.layer.Experts {
		p.experts.guessExperts()
	}
	p.own.alt.begin()
	in := p.x
	if s.PreNorm && p.layer.Mixer != arch.NoMixer && !p.layer.NoAttnNorm {
		in = p.queueNorm(&p.w.AttnNorm)
	}
	p.runMixer(in)
	if p.n > 0 && p.layer.NoMLP {
		p.queueResidual(p.mix)
	}
	if p.n == 0 || p.layer.NoMLP {
		return // the last layer, and no row wants logits: its keys and values are stored
	}
	if s.PostNorm {
		p.queueNormRows(p.mix, p.mix, &p.w.PostAttnNorm)
	}
	if s.Parallel == arch.Serial {
		if p.layer.Mixer != arch.NoMixer {
			p.queueResidual(p.mix)
		}
		p.queueSumNorm(&p.w.PostAttnNorm)
		p.own.alt.addLaurel()
		in = p.x
	}
	if s.PreNorm && s.Parallel != arch.ParallelSharedNorm {
		in = p.queueNorm(&p.w.FFNNorm)
	}
	p.mm.submitsReads.Store(p.batch.onFlash()) // prefetches KV while the MLP computes
	if p.layer.Experts {
		p.runExperts(in)
	} else {
		p.runMLP(&p.w.MLP, in, p.ffn)
		queueScale(p.passState, p.ffn, s.MLPScale)
	}
	if s.PostNorm {
		p.queueNormRows(p.ffn, p.ffn, &p.w.PostFFNNorm)
	}
	if s.Parallel != arch.Serial {
		p.queueResidual(p.mix)
	}
	p.queueResidual(p.ffn)
	p.queueSumNorm(&p.w.PostFFNNorm)
	p.own.run()
}

// runAttention computes the attention of a layer into mix: queries, keys and values, their
// rotation, attention over all pages that the rows attend to, and the output projection.
func (p *pass) runAttention(in []float32 /* [n, Dim] */) {
	wanted := p.anyWanted(0, p.n)
	p.runQKV(in, wanted)
	p.forRows(p.n, p.preparePart) // rotates, and appends keys and values to their sequences
	p.attn.selector.selectBlocks()
	if !wanted {
		p.pruneRows()
		return
	}
	p.attn.planTiles()
	p.attn.attendFlash()
	p.attn.attendMemory()
	p.pruneRows()
	p.latent.expand()
	if p.w.QGate.Present() {
		p.queueRowOp(rowOp{do: gateRow, dst: p.att, src: p.qgate, width: p.layer.HeadDim * p.m.Spec.Heads})
	}
	p.own.alt.queueLaurel()
	p.mm.queue(&p.w.O, p.att, p.n, p.mix)
	p.prefetchMLP()
	p.mm.run()
}

// runQKV computes keys, values and, if a row continues past them, queries.
func (p *pass) runQKV(in []float32 /* [n, Dim] */, queries bool) {
	if p.latent.on() {
		p.latent.project(in, queries)
		return
	}
	if queries {
		p.mm.queue(&p.w.Q, in, p.n, p.q)
		if p.w.QGate.Present() {
			p.mm.queue(&p.w.QGate, in, p.n, p.qgate)
		}
	}
	p.mm.queue(&p.w.K, in, p.n, p.k)
	p.mm.queue(&p.w.V, in, p.n, p.v)
	p.prefetch(&p.w.O)
	p.mm.run()
}

// runMLP computes one MLP for all rows of the batch.
func (p *pass) runMLP(w *weights.MLP, in, out []float32 /* [n, Dim] */) {
	p.mm.queueInner(w, in, nil, nil, p.n, 0)
	p.prefetch(&w.Down)
	p.mm.run()
	if p.n <= p.mm.maxUpTokens() {
		p.mm.queueActivation(w.Up.Rows)
	}
	p.mm.queue(&w.Down, p.gate, p.n, out)
	p.prefetchLayer(p.index + 1)
	p.mm.run()
}

// runExperts computes the MLP of a layer with experts: the router chooses a few for each
// token. Rows are gathered by expert, so that each expert's weights are read once for all
// its tokens.
func (p *pass) runExperts(in []float32 /* [n, Dim] */) {
	p.mm.queue(&p.w.Router, p.routerInput(in), p.n, p.experts.routing.logits)
	p.mm.run()
	p.forRows(p.n, p.experts.choosePart)
	p.experts.gather(p.expertInput(in))
	p.experts.run()
	if p.failed() {
		return
	}
	p.forRows(p.n, p.experts.combinePart)
	p.addDense()
	if p.w.Shared.Up.Present() {
		p.runSharedExpert(in)
	}
}

// runSharedExpert adds the expert that every row uses, weighted by its own gate.
func (p *pass) runSharedExpert(in []float32 /* [n, Dim] */) {
	s, r := p.m.Spec, &p.experts.routing
	p.runMLP(&p.w.Shared, in, p.mix)
	gated := p.w.SharedGate.Present()
	if gated {
		p.mm.queue(&p.w.SharedGate, in, p.n, r.gates)
		p.mm.run()
	}
	for row := range p.n {
		weight := float32(1)
		if gated {
			weight = quant.Sigmoid32(r.gates[row])
		}
		quant.AddScaled(p.ffn[row*s.Dim:(row+1)*s.Dim], p.mix[row*s.Dim:(row+1)*s.Dim], weight)
	}
}

// output computes the logits of the rows that want them, a few rows at a time, and passes
// them to the caller.
func (p *pass) output() error {
	s := p.m.Spec
	p.flushRowOps()
	if p.err = p.m.residency.CheckEvicted(len(p.m.weights.Layers)); p.err != nil {
		return p.err
	}
	for done := 0; done < len(p.batch.want); done += headRows {
		rows := p.batch.want[done:min(done+headRows, len(p.batch.want))]
		if !p.batch.awaits(rows) {
			continue
		}
		for i, row := range rows {
			if p.n < len(p.batch.ids) {
				row = done + i // pruneRows moved it
			}
			p.finishHidden(p.h[i*s.Dim:(i+1)*s.Dim], p.x[row*s.Dim:(row+1)*s.Dim])
		}
		if s.Headless || !p.batch.wantsLogits(rows) {
			p.deliver(rows, nil)
			continue
		}
		p.mm.queue(&p.m.weights.Head, p.h, len(rows), p.logits)
		p.mm.run()
		if p.err == nil {
			p.err = p.m.residency.CheckMapped(p.ctx) // before the logits leave the pass
		}
		if p.err != nil {
			return p.err
		}
		p.mm.headReads++
		for i := range rows {
			finishLogits(s, p.logits[i*s.Vocab:(i+1)*s.Vocab])
		}
		p.deliver(rows, p.logits)
	}
	return nil
}
