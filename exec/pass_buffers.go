package exec

import (
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// Buffers of a pass lie over each other where they are never in use together:
// attention's and those of the MLP, those of a layer and the logits behind the
// last. What one token takes decides how many pass through the layers together
// when memory is scarce, and so how often a prompt has what is not in memory read.

// carve takes all buffers from an arena, or measures them.
func (p *pass) carve(a *tiering.Arena) {
	p.carveRows(a)
	a.Overlay(func() { p.carveLayer(a) }, func() { p.carveOutput(a) })
}

// carveRows takes what is in use all the time, or holds something between steps.
func (p *pass) carveRows(a *tiering.Arena) {
	s := p.m.Spec
	p.x = a.Floats(p.chunk * s.Dim)
	p.carveBranches(a)
	p.raw = a.Bytes(p.m.weights.Embed.RowBytes())
	p.mm.quantized = a.Floats(p.mm.quantizedFloats())
	p.cos, p.sin = make([][]float32, len(s.Ropes)), make([][]float32, len(s.Ropes))
	for i, t := range s.Ropes {
		p.cos[i], p.sin[i] = a.Floats(p.chunk*t.Dim/2), a.Floats(p.chunk*t.Dim/2)
	}
	p.carveWorkers(a)
	p.attn.selector.carve(a)
	if p.mm.outliers != nil {
		p.mm.outliers.carve(a)
	}
}

// carveBranches takes what goes into the branches of a layer and what comes out.
// Where branches take turns, each vector is added to the residual stream before the
// same row of the next one is written, so one place serves for all of them. A
// convolution reads its input while it writes its output.
func (p *pass) carveBranches(a *tiering.Arena) {
	n := p.chunk * p.m.Spec.Dim
	p.ffn = a.Floats(n)
	p.mix, p.h = p.ffn, p.ffn
	w := p.widths()
	if p.m.Spec.Parallel != arch.Serial || w.shared {
		p.mix = a.Floats(n)
	}
	if p.m.Spec.Parallel != arch.Serial || w.shared || w.convs {
		p.h = a.Floats(n)
	}
}

// carveLayer takes what one branch of a layer is at work with.
func (p *pass) carveLayer(a *tiering.Arena) {
	w := p.widths()
	a.Overlay(
		func() { p.carveAttention(a, &w) },
		func() { p.carveMLP(a, &w) },
		func() {
			if w.convs {
				p.conv = a.Floats(p.chunk * 3 * p.m.Spec.Dim)
			}
		},
	)
}

// carveAttention takes what attention works with.
func (p *pass) carveAttention(a *tiering.Arena, w *widths) {
	s := p.m.Spec
	p.q = a.Floats(p.chunk * s.Heads * s.HeadDim)
	p.att = p.q // by then queries are in heads
	p.heads = a.Floats(p.chunk * s.Heads * s.HeadDim)
	p.k, p.v = a.Floats(p.chunk*w.kvHeads*s.HeadDim), a.Floats(p.chunk*w.kvHeads*s.HeadDim)
	p.attn.carve(a)
}

// carveMLP takes what an MLP, or experts, work with.
func (p *pass) carveMLP(a *tiering.Arena, w *widths) {
	s := p.m.Spec
	p.gate = a.Floats(p.chunk * max(w.inner, s.ExpertsUsed*w.expertInner))
	p.up = a.Floats(min(p.chunk, p.mm.mostUpTokens()) * max(w.inner, s.ExpertsUsed*w.expertInner))
	columns := p.mm.columnsOfUp()
	for i := range p.workers {
		p.workers[i].up = a.Floats(p.chunk * columns)
	}
	p.experts.routing.carve(a, s, p.chunk, p.experts.copiesRows())
}

// carveOutput takes what logits are made in, if they are made here.
func (p *pass) carveOutput(a *tiering.Arena) {
	if p.m.offloadedLayers == nil {
		p.logits = a.Floats(headRows * p.m.Spec.Vocab)
	}
}

// widths are the sizes of a model that differ between layers, the greatest of each.
type widths struct {
	kvHeads     int
	inner       int // of an MLP that every token goes through
	expertInner int
	convs       bool // some layers are convolutions
	shared      bool // some have an expert that every token uses besides others
}

func (s *step) widths() (w widths) {
	for l := range s.m.weights.Layers {
		of, spec := &s.m.weights.Layers[l], &s.m.Spec.Layers[l]
		w.kvHeads = max(w.kvHeads, spec.KVHeads)
		w.inner = max(w.inner, of.MLP.Up.Rows, of.Shared.Up.Rows)
		for i := range of.Experts {
			w.expertInner = max(w.expertInner, of.Experts[i].Up.Rows)
		}
		w.convs = w.convs || spec.Mixer == arch.ShortConv
		w.shared = w.shared || of.Shared.Up.Present()
	}
	return w
}

// maxCols returns the longest row of any matrix.
func (s *step) maxCols() int {
	op, w := s.m.Spec, s.widths()
	return max(op.Dim, op.Heads*op.HeadDim, w.inner, w.expertInner)
}

// hasWideTypes reports whether any weights are of a type whose products take more
// of a worker's memory. The output head is multiplied with few tokens at a time.
func (s *step) hasWideTypes() (wide bool) {
	look := func(_ string, m *weights.Linear) { wide = wide || m.Tiled && tiled.Wide(m.Type) }
	for l := range s.m.weights.Layers {
		s.m.weights.Layers[l].Each(look)
	}
	return wide
}
