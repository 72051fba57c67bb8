package exec

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant"
)

// errChunk is the refusal of a batch that has become too large since it was put
// together: another plan was followed meanwhile.
var errChunk = errors.New("exec: the batch is larger than a chunk")

// forward reads one batch of tokens. It allocates nothing. When it fails or is
// cancelled the sequences are as before.
func (m *Model) forward(ctx context.Context, b *Batch) (err error) {
	if m.offloadedLayers.all() {
		return m.forwardOffloaded(ctx, b)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.residency != nil && m.residency.Mapped {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() {
			if fault := weights.FaultOf(recover()); fault != nil {
				err = fault
			}
		}()
	}
	if m.closed {
		return ErrClosed
	}
	if err := m.ready(); err != nil {
		return err
	}
	m.promote()
	if len(b.ids) > m.pass.chunk {
		return errChunk
	}
	if err := b.grow(ctx); err != nil {
		return err
	}
	if err := m.kvReader.Begin(b, m.selects(b)); err != nil {
		return err
	}
	p := m.pass
	p.begin(ctx, b)
	p.embed()
	for l := range m.weights.Layers {
		if p.failed() {
			return p.err
		}
		p.runLayer(l)
	}
	if p.failed() {
		return p.err
	}
	if m.offloadedLayers != nil {
		err = m.runOffloadedLayers(ctx, b)
	} else {
		err = p.output()
	}
	if err != nil {
		return err
	}
	if s := m.stream(); s != nil {
		s.Finish()
	}
	m.kvReader.Finish()
	b.commit()
	return nil
}

// begin sets the pass up for a batch: its rows and the angles of their
// positions.
func (p *pass) begin(ctx context.Context, b *Batch) {
	p.ctx, p.err = ctx, nil
	p.batch, p.n = b, len(b.ids)
	p.reset()
	if s := p.m.stream(); s != nil {
		s.Begin((len(b.want) + headRows - 1) / headRows)
	}
	if p.m.experts != nil {
		p.m.experts.Begin(p.n)
	}
	p.mm.headReads = 0
	for i := range p.m.Spec.Ropes {
		t := &p.m.Spec.Ropes[i]
		half := t.Dim / 2
		for _, r := range b.runs {
			for j := range r.count {
				at := (r.row + j) * half
				t.Angles(p.cos[i][at:at+half], p.sin[i][at:at+half], r.pos+j, r.seq.long)
			}
		}
	}
}

// reset forgets what a pass that failed has left: a fault ends it anywhere.
func (p *pass) reset() {
	p.mm.offload.cancel()
	p.mm.matmuls, p.ops = p.mm.matmuls[:0], p.ops[:0]
	p.attn.sharesSpans = false
}

// embed looks up the tokens' rows.
func (p *pass) embed() {
	s := p.m.Spec
	p.err = p.m.embedding.Lookup(p.ctx, p.x, p.batch.ids, p.raw)
	if p.err == nil && s.EmbedScale != 1 {
		quant.Scale(p.x[:p.n*s.Dim], s.EmbedScale)
	}
}

// runLayer passes the residual stream x through one layer.
func (p *pass) runLayer(l int) {
	s := p.m.Spec
	p.index, p.layer, p.w = l, &s.Layers[l], &p.m.weights.Layers[l]

	if p.layer.Experts {
		p.experts.guess()
	}
	in := p.x
	if s.PreNorm {
		in = p.queueNorm(&p.w.AttnNorm)
	}
	if p.layer.Mixer == arch.ShortConv {
		p.runShortConv(in)
	} else {
		p.runAttention(in)
	}
	if p.n == 0 {
		return // keys and values were all
	}
	if s.PostNorm {
		p.queueNormRows(p.mix, p.mix, &p.w.PostAttnNorm)
	}
	if s.Parallel == arch.Serial {
		p.queueResidual(p.mix)
		in = p.x
	}
	if s.PreNorm && s.Parallel != arch.ParallelOne {
		in = p.queueNorm(&p.w.FFNNorm)
	}
	p.mm.submitsReads.Store(p.batch.onFlash())
	if p.layer.Experts {
		p.runExperts(in)
	} else {
		p.runDense(in)
	}
	if s.PostNorm {
		p.queueNormRows(p.ffn, p.ffn, &p.w.PostFFNNorm)
	}
	if s.Parallel != arch.Serial {
		p.queueResidual(p.mix)
	}
	p.queueResidual(p.ffn)
}

// applyNorm normalizes one vector.
func applyNorm(n *arch.NormSpec, dst, src []float32, g *weights.Gain) {
	if n.Layer {
		quant.LayerNorm(dst, src, g.Weight, g.Bias, n.Eps)
		return
	}
	quant.RMSNorm(dst, src, g.Weight, n.Eps, n.Offset)
}

// output computes the logits that were asked for and hands them over.
func (p *pass) output() error {
	s, w := p.m.Spec, p.m.weights
	p.flushRowOps()
	want := p.batch.want
	for done := 0; len(want) > 0; {
		n := min(len(want), headRows)
		for i, row := range want[:n] {
			if p.n < len(p.batch.ids) {
				row = done + i // they have moved
			}
			applyNorm(&s.Norm, p.h[i*s.Dim:(i+1)*s.Dim], p.x[row*s.Dim:(row+1)*s.Dim], &w.Norm)
		}
		p.mm.queue(&w.Head, p.h, n, p.logits)
		p.mm.run()
		if p.err != nil {
			return p.err
		}
		p.mm.headReads++
		for i, row := range want[:n] {
			logits := p.logits[i*s.Vocab : (i+1)*s.Vocab]
			finishLogits(s, logits)
			if err := p.batch.each(p.batch.position(row), logits); err != nil {
				return err
			}
		}
		want, done = want[n:], done+n
	}
	return nil
}

// finishLogits applies the family's scale and soft cap.
func finishLogits(s *arch.Spec, logits []float32) {
	if s.LogitScale != 1 {
		quant.Scale(logits, s.LogitScale)
	}
	if s.FinalSoftcap != 0 {
		quant.SoftCap(logits, s.FinalSoftcap)
	}
}
