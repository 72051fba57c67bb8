package exec

import (
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/kv/fetch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// headRows is how many rows go through the output head together. The logits of a large
// vocabulary are the widest buffer, so the pass holds few rows of them at once.
const headRows = 8

// pass is the forward pass of a model: its buffers, allocated once, and its parts. Each part has
// a file of its own: pass_state.go (the state that the parts share), matmul.go (the matmul queue),
// attention.go (attention), experts.go (the experts),
// mixers.go (layers with recurrent state), per_layer.go (layers' own embeddings). forward.go has the order in which a token
// goes through them.
type pass struct {
	*passState
	mm       matmulQueue
	attn     attention
	experts  experts
	mixers   mixers
	own      perLayer
	latent   latentAttention
	delivery delivery
	frame    *tiering.Frame // memory of all buffers

	// Method values, created once because creating one allocates.
	preparePart, encodePart func(row, worker int)
}

// newPass returns a pass for up to chunk tokens and allocates its buffers.
func newPass(m *Model, chunk int) (*pass, error) {
	p := outlinePass(m, chunk, m.workers.Count())
	var probe tiering.Arena
	p.carve(&probe)
	frame, err := tiering.Alloc(m.budget, tiering.Scratch, probe.Need())
	if err != nil {
		return nil, err
	}
	p.frame = frame
	if err := p.mm.offload.attachTo(m.offload, frame); err != nil {
		p.free()
		return nil, err
	}
	arena := tiering.NewArena(frame)
	p.carve(arena)
	if err := arena.Err(); err != nil {
		p.free()
		return nil, err
	}
	p.prepareWorkers()
	p.attn.checks = fetch.NewPageChecksum(m.cache)
	p.ops = make([]rowOp, 0, maxRowOps)
	p.preparePart, p.encodePart = p.prepareRow, p.encodeRow
	p.delivery.callers, p.delivery.part = make([]int, 0, headRows), p.deliverCaller
	p.mixers.makeParts()
	p.passState.makeParts()
	p.mm.makeParts()
	p.attn.makeParts()
	p.experts.makeParts()
	p.own.gatePart = p.own.gateRow
	p.own.alt.makeParts()
	p.latent.makeParts()
	if p.latent.on() {
		p.preparePart = p.latent.prepareRow
	}
	return p, nil
}

// outlinePass returns a pass without buffers; carving it with a probe measures their size.
func outlinePass(m *Model, chunk, threads int) *pass {
	s := &passState{m: m, chunk: chunk, workers: make([]workspace, threads)}
	p := &pass{passState: s}
	p.activate = activation(m.Spec)
	p.mm.passState = s
	p.attn.passState, p.attn.selector.passState, p.attn.shared.attention = s, s, &p.attn
	p.experts.passState, p.experts.mm = s, &p.mm
	p.mixers.passState, p.mixers.mm = s, &p.mm
	p.own.passState, p.own.mm = s, &p.mm
	p.own.alt.passState, p.own.alt.mm = s, &p.mm
	p.latent.passState, p.latent.mm = s, &p.mm
	p.mm.matmuls = make([]matmul, 0, p.mm.maxMatmuls())
	p.mm.inputs = make([]matmulInput, 0, cap(p.mm.matmuls))
	p.mm.addOutlierPath()
	p.mm.addBeside()
	return p
}

// prepareWorkers allocates each thread's scratch objects that do not live in the frame.
func (p *pass) prepareWorkers() {
	cols, wide, queries := p.maxCols(), p.hasWideTypes(), p.attn.maxTileQueries()
	for i := range p.workers {
		w := &p.workers[i]
		w.scratch = quant.NewScratch(cols)
		w.tiles = tiled.NewScratchIn(w.tileMemory, p.chunk, wide)
		w.orderedRow = make([]float32, cols)
		w.weights = make([]quant.BlockWeights, queries)
	}
}

// free releases the buffers.
func (p *pass) free() {
	if p.frame != nil {
		p.frame.Free()
		p.frame = nil
	}
}

// finishHidden writes the hidden state behind the final norm.
func (p *pass) finishHidden(dst, x []float32 /* [Dim] */) {
	if p.m.Spec.Encoder.NoFinalNorm {
		copy(dst, x)
		return
	}
	applyNorm(&p.m.Spec.Norm, dst, x, &p.m.weights.Norm)
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
