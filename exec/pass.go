package exec

import (
	"github.com/llmrun/llmrun/kv/fetch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// headRows is how many tokens go through the output head together. Logits of a
// large vocabulary are the widest buffer, so few rows are held at once.
const headRows = 8

// pass is the forward pass of a model: its buffers, allocated once, and its parts. Each part
// has a page of its own: step.go what they share, matmul.go the matmul queue, attention.go
// attention, experts.go the experts. forward.go says in which order a token goes through
// them.
type pass struct {
	*step
	mm    matmulQueue
	attn  attention
	exp   experts
	frame *tiering.Frame // of all buffers

	// Functions as values, made once because making one allocates.
	rowPart  func(row, worker int)
	convPart func(part, worker int)
}

// newPass returns a pass of up to chunk tokens and allocates its buffers.
func newPass(m *Model, chunk int) (*pass, error) {
	p := outlinePass(m, chunk, m.workers.Count())
	var probe tiering.Arena
	p.carve(&probe)
	frame, err := tiering.Alloc(m.budget, tiering.Scratch, probe.Need())
	if err != nil {
		return nil, err
	}
	p.frame = frame
	if err := p.mm.away.attachTo(m.away, frame); err != nil {
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
	p.attn.sums = fetch.NewChecks(m.cache)
	p.steps = make([]rowStep, 0, maxRowSteps)
	p.rowPart, p.convPart = p.prepareRow, p.convolve
	p.step.makeParts()
	p.mm.makeParts()
	p.attn.makeParts()
	p.exp.makeParts()
	return p, nil
}

// outlinePass returns a pass without buffers, to measure what they take.
func outlinePass(m *Model, chunk, threads int) *pass {
	s := &step{m: m, chunk: chunk, workers: make([]workspace, threads)}
	p := &pass{step: s}
	p.activate = activation(m.Spec)
	p.mm.step = s
	p.attn.step, p.attn.chooser.step = s, s
	p.exp.step, p.exp.mm = s, &p.mm
	p.mm.jobs = make([]job, 0, p.mm.maxJobs())
	p.mm.inputs = make([]input, 0, cap(p.mm.jobs))
	p.mm.addShadow()
	return p
}

// prepareWorkers makes what threads need outside the frame.
func (p *pass) prepareWorkers() {
	cols, wide, queries := p.maxCols(), p.multipliesWide(), p.attn.maxTileQueries()
	for i := range p.workers {
		w := &p.workers[i]
		w.scratch = quant.NewScratch(cols)
		w.tiles = tiled.NewScratchIn(w.tileMemory, p.chunk, wide)
		w.ordered = make([]float32, cols)
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
