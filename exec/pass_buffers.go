package exec

import (
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// Buffers that are never in use at the same time share memory: attention's and the MLP's, and a
// layer's and the logits. When memory is scarce, the bytes per token decide how many tokens pass
// through the layers together, and so how often a prompt streams the non-resident weights.

// carve takes all buffers from an arena; with a probe as the arena, it measures them.
func (p *pass) carve(a *tiering.Arena) {
	p.carveRows(a)
	a.Overlay(func() { p.carveLayer(a) }, func() { p.carveOutput(a) })
}

// carveRows takes the buffers that are in use during a whole pass or carry state between steps.
func (p *pass) carveRows(a *tiering.Arena) {
	s := p.m.Spec
	p.x = a.Floats(p.chunk * s.Dim)
	p.carveBranches(a)
	p.raw = a.Bytes(p.m.weights.Embed.LookupBytes())
	p.mm.quantized = a.Floats(p.mm.quantizedFloats())
	p.cos, p.sin = make([][]float32, len(s.Ropes)), make([][]float32, len(s.Ropes))
	for i, t := range s.Ropes {
		p.cos[i], p.sin[i] = a.Floats(p.chunk*t.Dim/2), a.Floats(p.chunk*t.Dim/2)
	}
	p.own.carveRows(a)
	p.carveWorkers(a)
	p.attn.selector.carve(a)
	if p.mm.outliers != nil {
		p.mm.outliers.carve(a)
	}
	if p.mm.beside != nil {
		p.mm.beside.carve(a)
	}
}

// carveBranches takes the input and output buffers of a layer's branches (attention or
// convolution, and MLP or experts). In serial layers, each output row is added to the residual
// stream before the next branch writes the same row, so one buffer serves for all of them. A
// convolution reads its input while it writes its output, so it needs a second buffer.
func (p *pass) carveBranches(a *tiering.Arena) {
	n := p.chunk * p.m.Spec.Dim
	p.ffn = a.Floats(n)
	p.mix, p.h = p.ffn, p.ffn
	w := p.widths()
	if p.m.Spec.Parallel != arch.Serial || w.shared || w.both {
		p.mix = a.Floats(n)
	}
	if p.m.Spec.Parallel != arch.Serial || w.shared || w.convs || w.both {
		p.h = a.Floats(n)
	}
}

// carveLayer takes the working buffers of one branch of a layer.
func (p *pass) carveLayer(a *tiering.Arena) {
	w := p.widths()
	a.Overlay(
		func() { p.carveAttention(a, &w) },
		func() { p.carveMLP(a, &w) },
		func() { p.mixers.carve(a, &w) },
		func() { p.own.carveLayer(a) },
	)
}

// carveAttention takes the working buffers of attention.
func (p *pass) carveAttention(a *tiering.Arena, w *widths) {
	s := p.m.Spec
	p.q = a.Floats(p.chunk * s.Heads * s.HeadDim)
	p.att = p.q // queries have moved to heads before att is written
	p.heads = a.Floats(p.chunk * s.Heads * s.HeadDim)
	if s.GatedAttention {
		p.qgate = a.Floats(p.chunk * s.Heads * s.HeadDim)
	}
	p.k, p.v = a.Floats(p.chunk*w.kvHeads*s.HeadDim), a.Floats(p.chunk*w.kvHeads*s.HeadDim)
	p.attn.carve(a)
	p.latent.carve(a)
}

// carveMLP takes the working buffers of an MLP or of experts.
func (p *pass) carveMLP(a *tiering.Arena, w *widths) {
	s := p.m.Spec
	p.gate = a.Floats(p.chunk * max(w.inner, s.ExpertsUsed*w.expertInner))
	p.up = a.Floats(min(p.chunk, p.mm.maxUpTokens()) * max(w.inner, s.ExpertsUsed*w.expertInner))
	columns := p.mm.upSliceColumns()
	for i := range p.workers {
		p.workers[i].up = a.Floats(p.chunk * columns)
	}
	p.experts.routing.carve(a, s, p.chunk, p.experts.needsCopies())
}

// carveOutput takes the logits buffer, unless an accelerator computes the logits or the network has none.
func (p *pass) carveOutput(a *tiering.Arena) {
	if p.m.offloadedLayers == nil && !p.m.Spec.Headless {
		p.logits = a.Floats(headRows * p.m.Spec.Vocab)
	}
}

// widths holds, for each size that differs between layers, its maximum.
type widths struct {
	kvHeads     int
	inner       int // of a dense MLP or a shared expert
	expertInner int
	convs       bool // some layer is a convolution
	recurs      bool // some layer has matrices
	both        bool // some layer has attention and matrices
	shared      bool // some layer has a shared expert
}

// widths returns the maxima over all layers that the CPU computes.
func (s *passState) widths() (w widths) {
	for l := range s.m.weights.Layers {
		layer, spec := &s.m.weights.Layers[l], &s.m.Spec.Layers[l]
		w.kvHeads = max(w.kvHeads, spec.KVHeads)
		w.inner = max(w.inner, layer.MLP.Up.Rows, layer.Shared.Up.Rows)
		for i := range layer.Experts {
			w.expertInner = max(w.expertInner, layer.Experts[i].Up.Rows)
		}
		w.convs, w.recurs = w.convs || spec.Mixer == arch.ShortConv, w.recurs || spec.Mixer.Recurs()
		w.both = w.both || spec.Mixer == arch.AttentionAndRecurrent
		w.shared = w.shared || layer.Shared.Up.Present() || s.m.Spec.DenseBeside
	}
	return w
}

// maxCols returns the maximum number of columns of a matrix.
func (s *passState) maxCols() int {
	spec, w := s.m.Spec, s.widths()
	n := max(spec.Dim, spec.Heads*spec.HeadDim, w.inner, w.expertInner, spec.PerLayer, spec.Latent.QRank)
	if w.recurs {
		n = max(n, spec.Recurrence.Inner())
	}
	return n
}

// hasWideTypes reports whether any layer's weights are of a type whose matmuls take more scratch
// memory per thread. The output head does not count: it runs with few tokens at a time.
func (s *passState) hasWideTypes() (wide bool) {
	check := func(_ string, m *weights.Linear) { wide = wide || m.Tiled && tiled.Wide(m.Type) }
	for l := range s.m.weights.Layers {
		s.m.weights.Layers[l].Each(check)
	}
	return wide
}
