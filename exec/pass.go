package exec

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// headRows is how many tokens go through the output head together. Logits of a
// large vocabulary are the widest buffer, so few rows are held at once.
const headRows = 8

// pass is the state of one trip through the layers: the buffers, which are
// allocated once, and what is being worked on, which the step functions read.
type pass struct {
	m     *Model
	chunk int
	frame *tiering.Frame

	x, h     []float32    // [chunk, Dim] residual stream; its normalized copy
	mix, ffn []float32    // [chunk, Dim] what attention and MLP give
	q, att   []float32    // [chunk, Heads*HeadDim] queries as they are computed; what attention gives
	k, v     []float32    // [chunk, maxKV*HeadDim]
	heads    []float32    // [kvHeads, chunk, group, HeadDim] rotated queries in attention's order
	gate     []float32    // [chunk, inner] of an MLP, or [chunk*ExpertsUsed, inner] of experts
	up       []float32    // the same for at most mostUp tokens
	kept     [2][]float32 // [chunk, Heads, HeadDim+2] what tiles know of pages on flash
	cos, sin [][]float32
	conv     []float32 // [chunk, 3*Dim]
	logits   []float32 // [headRows, Vocab]
	raw      []byte    // a row of the embedding as the file has it
	rounded  []float32 // memory of the step's rounded activations
	route    router

	workers []workspace
	spans   []float32 // partial results of attention over a long context, see attention.go
	jobs    []job     // matrix products of the current step
	shift   int       // of work, see measureJobs
	inputs  []input   // what the jobs multiply, rounded

	// The current step.
	ctx   context.Context // of the pass that is under way
	err   error           // why the pass cannot go on
	batch *Batch
	n     int // rows in the batch
	// headRun is how many times the stream has brought the output matrix.
	headRun int
	layer   *arch.LayerSpec
	index   int
	w       *weights.LayerWeights
	steps   []rowStep // to be done with rows before they are used
	tiles   []tile
	split   bool
	landed  landed       // pages from flash that attention looks at
	pages   []landedPage // memory of landed
	sums    shareSums    // of them
	feeds   atomic.Bool  // who does the next part of a product asks for more pages first
	damaged sync.Mutex   // guards landed.err
	chooser chooser      // of the blocks that tokens look at, see attention_select.go
	act     func(dst, gate, up []float32)
	shadow  *shadowPass // nil: without Options.W8A8
	away    awayPass

	// What overRows is doing.
	rows, rowsPerPart int
	rowDo             func(row, worker int)

	// Step functions as values, made once because making one allocates.
	attnPart, mergePart, rowPart, expertActPart, choosePart, combinePart, convPart, roundPart, stepsPart, rowsPart, landedPart func(part, worker int)
}

// workspace is what one thread needs for itself.
type workspace struct {
	scratch    *quant.Scratch
	tiles      *tiled.Scratch
	tileMemory []float32 // of tiles
	ordered    []float32 // [maxCols] a row that is being rounded, in another order
	up         []float32 // [chunk, columnsOfUp] of an MLP, see mulActivating
	scores     []float32 // [tileQueries, kv.BlockTokens]
	acc        []float32 // [tileQueries, HeadDim+2] running result of a tile
	span       []float32 // [tileQueries, HeadDim+2] result of the current span

	values []float32 // [kv.BlockTokens, HeadDim] of a cache in F16, as float32

	// For a cache in codes: a tile's queries, rounded, and their weights of a
	// block.
	queries tiled.Activations
	padded  []float32 // [keyCols] a query filled up with zeros
	rounded []float32 // memory of queries
	weights []quant.BlockWeights

	// For selection.
	summarizer *kv.Summarizer
	box        []float32         // [SummaryCols] a query as summaries are multiplied with it
	corners    tiled.Activations // those queries, rounded
	parts      []float32         // memory of corners
	guess      []float32         // [group, kv.BlockTokens] scores of a group of summaries
	blocks     []float32         // [group, blocks] scores of blocks
}

func newPass(m *Model, chunk int) (*pass, error) {
	p := &pass{m: m, chunk: chunk, workers: make([]workspace, m.workers.Count())}
	p.jobs = make([]job, 0, p.maxJobs())
	p.inputs = make([]input, 0, cap(p.jobs))
	p.addShadow()
	var probe tiering.Arena
	p.carve(&probe)
	frame, err := tiering.Alloc(m.budget, tiering.Scratch, probe.Need())
	if err != nil {
		return nil, err
	}
	p.frame = frame
	if m.away != nil {
		p.away.away, p.away.trace = m.away, newAwayTrace(m.away.Trace, m.away.Name)
		if p.away.buffer, err = m.away.attach(frame); err != nil {
			p.free()
			return nil, err
		}
	}
	arena := tiering.NewArena(frame)
	p.carve(arena)
	if err := arena.Err(); err != nil {
		p.free()
		return nil, err
	}
	cols := p.maxCols()
	for i := range p.workers {
		p.workers[i].scratch = quant.NewScratch(cols)
		p.workers[i].tiles = tiled.NewScratchIn(p.workers[i].tileMemory, chunk, p.multipliesWide())
		p.workers[i].ordered = make([]float32, cols)
		p.workers[i].weights = make([]quant.BlockWeights, p.maxTileQueries())
	}
	p.act = activation(m.Spec)
	p.sums = newShareSums(m.cache)
	p.steps = make([]rowStep, 0, maxRowSteps)
	p.attnPart, p.mergePart = p.attend, p.merge
	p.rowPart, p.convPart, p.roundPart = p.prepareRow, p.convolve, p.round
	p.stepsPart, p.rowsPart = p.takeSteps, p.doRows
	p.expertActPart, p.choosePart, p.combinePart = p.activateRouted, p.choose, p.combine
	p.landedPart = p.lookAtLanded
	p.startSelection()
	return p, nil
}

// maxJobs is more products than any step has.
func (p *pass) maxJobs() int { return 2*p.m.Spec.Experts + 4 }

func (p *pass) free() {
	if p.frame != nil {
		p.frame.Free()
		p.frame = nil
	}
}

// activation returns the function that combines gate and up, or that maps up
// alone in an MLP without a gate (gate is then ignored).
func activation(s *arch.Spec) func(dst, gate, up []float32) {
	if s.Gated {
		return [...]func(dst, gate, up []float32){arch.SiLU: quant.SiluMul, arch.GELUTanh: quant.GeluTanhMul, arch.GELUErf: quant.GeluErfMul}[s.Act]
	}
	single := [...]func(dst, x []float32){arch.SiLU: quant.Silu, arch.GELUTanh: quant.GeluTanh, arch.GELUErf: quant.GeluErf}[s.Act]
	return func(dst, _, up []float32) { single(dst, up) }
}
