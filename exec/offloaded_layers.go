package exec

import (
	"context"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// Processor computes passes of models in place of this package's own kernels, all of
// them or their last layers: a GPU with memory of its own.
type Processor interface {
	// Open makes ready for what the processor takes of a model: the output matrix and as
	// many of the last layers as there is room for, or as it was told to. A model that
	// it cannot compute is refused with an error that wraps ErrUnsupported, and one of
	// which too little fits with the sizes, before weights are read.
	Open(o *Offer) (Network, error)
}

// Offer is a model that a processor may take a part of, before its weights are read.
type Offer struct {
	Spec    *arch.Spec
	Chunk   int // tokens of a prompt that are computed together
	Context int // most tokens of a text; 0: nobody has said
	// Layers and Head are types and sizes: matrices have no data, and the values of
	// vectors mean nothing.
	Layers []*LayerWeights
	Head   Linear
	Budget *tiering.Budget
}

// Network is the last layers of a model on a processor, or all. First it takes
// weights, then it reads texts. Its methods are called by one goroutine at a time.
type Network interface {
	// Placement says what the network is of the model, and what it takes.
	Placement() Placement
	// TakeLayer and TakeEnds copy weights, which are gone afterwards. Layers count as
	// the model's do.
	TakeLayer(l int, w *LayerWeights) error
	TakeEnds(norm []float32 /* [Dim] */, head Linear /* [Vocab, Dim] */) error
	// NewSequence returns the memory of an empty text.
	NewSequence() (SequenceMemory, error)
	// Input is where the residual stream of the next chunk goes, as it enters the first
	// layer of the network: rows of the embedding, or what the layers before it made
	// of them. It is valid until Read.
	Input(tokens int) []float32 /* [tokens, Dim] */
	// Read reads a chunk, the first of which is at a position of the text, and hands
	// over the logits after the wanted tokens, ascending, as the output matrix gives
	// them. What the text holds from the position on is replaced.
	Read(ctx context.Context, t SequenceMemory, c *Chunk) error
	Close() error
}

// Placement says which part of a model a processor has, and what that takes.
type Placement struct {
	Processor string // its name
	// First is the first of the layers that it has, and Layers how many the model has:
	// those before the first are computed by this package. The output matrix is the
	// processor's.
	First, Layers int
	Context       int // tokens for which a text has room
	// Bytes of its memory: what is taken now, with such a text at most, and what there is.
	Held, Need, Memory int64
	// Here is the weights that stay in the machine's memory, which the network does not
	// know: those of the first layers, and the embedding.
	Here int64
}

// SequenceMemory is what a network remembers of a text.
type SequenceMemory interface {
	Clone() (SequenceMemory, error)
	Close() error
}

// Chunk is consecutive tokens of one text, whose rows are in Network.Input.
type Chunk struct {
	Position, Tokens int
	Long             bool // longrope: the frequencies of long texts
	Want             []int
	Each             func(row int, logits []float32) error
}

// Linear is a matrix with rows as the file has them, and the bias that is added to
// its product, nil where there is none.
type Linear struct {
	weights.Matrix
	Bias []float32 // [Rows]
}

// LayerWeights are what a network takes of a layer. What it does not have is zero.
type LayerWeights struct {
	AttnNorm, FFNNorm []float32 // [Dim]
	Q, K, V, O        Linear
	QNorm, KNorm      []float32
	Gate, Up, Down    Linear
}

// offloadedLayers is a model's place on a processor.
type offloadedLayers struct {
	network Network
	place   Placement // as it was opened
	chunk   int
	raw     []byte // a row of the embedding as the file has it
}

// all reports whether whole passes are computed on a processor.
func (e *offloadedLayers) all() bool { return e != nil && e.place.First == 0 }

// Placement returns where the model's layers are, nil without Options.Processor.
func (m *Model) Placement() *Placement {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.offloadedLayers == nil || m.closed {
		return nil
	}
	p := m.offloadedLayers.network.Placement()
	p.Here = m.offloadedLayers.place.Here
	return &p
}

// Context returns how many tokens a sequence has at most.
func (m *Model) Context() int {
	if m.offloadedLayers == nil {
		return m.Spec.Context
	}
	return min(m.Spec.Context, m.offloadedLayers.place.Context)
}

// forwardOffloaded is forward on a processor.
func forwardOffloaded(ctx context.Context, m *Model, b *Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	if err := runOffloadedLayers(ctx, m, b); err != nil {
		return err
	}
	for _, r := range b.runs {
		r.seq.ids = append(r.seq.ids, b.ids[r.row:r.row+r.count]...)
	}
	return nil
}

// runOffloadedLayers has a processor compute its layers of a pass, those before them being
// done.
func runOffloadedLayers(ctx context.Context, m *Model, b *Batch) error {
	if m.pass != nil {
		m.pass.flushRowOps()
	}
	for i := range b.runs {
		if err := ctx.Err(); err != nil { // a network may not look between the layers of one token
			return err
		}
		if err := runOffloaded(ctx, m, b, &b.runs[i]); err != nil {
			return err
		}
	}
	return nil
}

// runOffloaded has it compute those of one sequence.
func runOffloaded(ctx context.Context, m *Model, b *Batch, r *run) (err error) {
	e, s := m.offloadedLayers, r.seq
	if s.memory == nil {
		if s.memory, err = e.network.NewSequence(); err != nil {
			return err
		}
	}
	if err := writeInput(ctx, m, e.network.Input(r.count), b, r); err != nil {
		return err
	}
	s.prepareChunk(b, r)
	return e.network.Read(ctx, s.memory, &s.chunk)
}

// prepareChunk describes a run of the batch for a network.
func (s *Sequence) prepareChunk(b *Batch, r *run) {
	s.chunk.Position, s.chunk.Tokens, s.chunk.Long = r.pos, r.count, s.long
	s.chunk.Want = s.chunk.Want[:0]
	for _, row := range b.want {
		if row >= r.row && row < r.row+r.count {
			s.chunk.Want = append(s.chunk.Want, row-r.row)
		}
	}
	if s.chunk.Each == nil {
		s.chunk.Each = func(row int, logits []float32) error {
			finishLogits(s.model.Spec, logits)
			return s.batch.each(s.chunk.Position+row, logits)
		}
	}
}

// writeInput writes the residual stream of a sequence's tokens as it enters the layers of
// the network.
func writeInput(ctx context.Context, m *Model, x []float32 /* [count, Dim] */, b *Batch, r *run) error {
	if m.pass != nil {
		copy(x, m.pass.x[r.row*m.Spec.Dim:])
		return nil
	}
	if err := m.embedding.Lookup(ctx, x, b.ids[r.row:r.row+r.count], m.offloadedLayers.raw); err != nil {
		return err
	}
	if scale := m.Spec.EmbedScale; scale != 1 {
		quant.Scale(x, scale)
	}
	return nil
}

// cloneMemory copies what a processor remembers, between two passes.
func cloneMemory(m *Model, t SequenceMemory) (SequenceMemory, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	return t.Clone()
}

// closeMemory gives memory back, between two passes.
func closeMemory(m *Model, t SequenceMemory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = t.Close() // whoever closes a text cannot mend the driver
}
