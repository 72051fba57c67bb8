package exec

import (
	"context"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// Accelerator is an accelerator that computes all layers of a model, or the last ones, with its
// own kernels and in its own memory, such as a GPU.
type Accelerator interface {
	// Open prepares the accelerator for its part of a model: the output matrix and as many of the
	// last layers as fit or as its configuration allows. It runs before weights are read. If the
	// accelerator cannot compute the model, the error wraps arch.ErrUnsupported. If too few layers
	// fit, the error contains the sizes.
	Open(o *Offer) (Network, error)
}

// Offer describes a model to an accelerator before its weights are read.
type Offer struct {
	Spec    *arch.Spec
	Chunk   int // tokens of a prefill chunk
	Context int // maximum tokens of a sequence; 0: unknown
	// Layers and Head have types and sizes only: matrices have no data, and the values of
	// vectors are undefined.
	Layers []*LayerWeights
	Head   Linear
	Budget *tiering.Budget
}

// Network is the layers of a model that an accelerator computes. It receives weights first, then
// computes chunks. One goroutine at a time calls its methods.
type Network interface {
	// Placement returns the network's part of the model and its memory.
	Placement() Placement
	// UploadLayer and UploadOutput copy weights; the caller frees them afterwards. l is the layer's
	// index in the model.
	UploadLayer(l int, w *LayerWeights) error
	UploadOutput(norm []float32 /* [Dim] */, head Linear /* [Vocab, Dim] */) error
	// NewSequence returns the KV memory of an empty sequence.
	NewSequence() (SequenceMemory, error)
	// Input returns the buffer for the residual stream of the next chunk as it enters the
	// network's first layer: embedding rows, or the output of the layers before. It is valid
	// until Read.
	Input(tokens int) []float32 /* [tokens, Dim] */
	// Read computes a chunk and passes the logits of the wanted rows, in ascending order, to
	// c.Each. They are the result of the output matrix, without the family's scale and soft cap.
	// The chunk replaces the sequence's tokens from c.Position on.
	Read(ctx context.Context, t SequenceMemory, c *Chunk) error
	Close() error
}

// Placement is the part of a model that an accelerator computes, and the memory of each side.
type Placement struct {
	Device string // name of the accelerator
	// First is the first layer of the accelerator, and Layers is the number of layers of the
	// model. The CPU computes the layers before First; the accelerator always has the output
	// matrix.
	First, Layers int
	Context       int // maximum tokens of a sequence
	// Bytes of the accelerator's memory: in use now, in use with a full sequence, and in total.
	Held, Need, Memory int64
	// HostBytes counts the weights in the host's memory: those of the first layers and the
	// embedding, or what a plan pins of them. The network leaves it 0.
	HostBytes int64
	// HostBuffers is the host's memory that the accelerator's buffers take, without KV, and
	// HostKVPerToken that of the KV of a token: all of them if both share the memory, otherwise
	// only buffers for copies.
	HostBuffers, HostKVPerToken int64
	// SharesMemory: the accelerator's buffers are in the machine's memory.
	SharesMemory bool
	// HostUpload is the host's memory for the largest weights while they are copied to the
	// accelerator, before the host's own weights are read. The network states what it takes besides.
	HostUpload int64
}

// SequenceMemory is the KV of a sequence in a network.
type SequenceMemory interface {
	Clone() (SequenceMemory, error)
	Close() error
}

// Chunk is consecutive tokens of one sequence, whose rows are in Network.Input.
type Chunk struct {
	Position, Tokens int
	Long             bool // use the longrope frequencies of long sequences
	Want             []int
	Each             func(row int, logits []float32) error
}

// Linear is a matrix with rows in the file's layout, and its bias, nil if there is none.
type Linear struct {
	weights.Matrix
	Bias []float32 // [Rows]
}

// LayerWeights are the weights of a layer that a network receives. Absent ones are zero.
type LayerWeights struct {
	AttnNorm, FFNNorm []float32 // [Dim]
	Q, K, V, O        Linear
	QNorm, KNorm      []float32
	Gate, Up, Down    Linear
}

// offloadedLayers is the part of a model that an accelerator computes.
type offloadedLayers struct {
	network   Network
	placement Placement // placement when the network was opened
	chunk     int
	raw       []byte // scratch: an embedding row as the file stores it
}

// all reports whether the accelerator computes whole passes.
func (e *offloadedLayers) all() bool { return e != nil && e.placement.First == 0 }

// count returns the number of layers that the accelerator computes.
func (e *offloadedLayers) count() int {
	if e == nil {
		return 0
	}
	return e.placement.Layers - e.placement.First
}

// hostKV returns the shape of the KV cache of the layers that the CPU computes.
func hostKV(m *Model, format kv.Format) kv.Shape {
	shape := m.Spec.KVShape(format)
	if m.offloadedLayers != nil {
		clear(shape.KVHeads[m.offloadedLayers.placement.First:]) // the accelerator holds the KV of its layers
	}
	return shape
}

// hostThreads returns the number of compute threads. Without layers on the CPU, one thread copies
// the host's data.
func (e *offloadedLayers) hostThreads(threads int) int {
	if e.all() {
		return 1
	}
	return threads
}

// Placement returns the placement of the model's layers; nil without Options.Accelerator.
func (m *Model) Placement() *Placement {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.offloadedLayers == nil || m.closed {
		return nil
	}
	p := m.offloadedLayers.network.Placement()
	p.HostBytes = m.offloadedLayers.placement.HostBytes
	if m.residency != nil {
		p.HostBytes = m.residency.Plan.PinnedBytes()
	}
	return &p
}

// Context returns the maximum number of tokens of a sequence.
func (m *Model) Context() int {
	if m.offloadedLayers == nil {
		return m.Spec.Context
	}
	return min(m.Spec.Context, m.offloadedLayers.placement.Context)
}

// forwardOffloaded is forward on an accelerator that computes all layers. The caller holds m.mu.
func forwardOffloaded(ctx context.Context, m *Model, b *Batch) error {
	if err := runOffloadedLayers(ctx, m, b); err != nil {
		return err
	}
	for _, r := range b.runs {
		r.seq.ids = append(r.seq.ids, b.ids[r.row:r.row+r.count]...)
	}
	return nil
}

// runOffloadedLayers runs the accelerator's layers of a pass. The layers before them have run.
func runOffloadedLayers(ctx context.Context, m *Model, b *Batch) error {
	if m.pass != nil {
		m.pass.flushRowOps()
	}
	for i := range b.runs {
		if err := ctx.Err(); err != nil { // a network may not check ctx between the layers of one token
			return err
		}
		if err := runOffloaded(ctx, m, b, &b.runs[i]); err != nil {
			return err
		}
	}
	return nil
}

// runOffloaded runs the accelerator's layers for one sequence.
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

// prepareChunk describes a run of the batch to a network.
func (s *Sequence) prepareChunk(b *Batch, r *run) {
	s.chunk.Position, s.chunk.Tokens, s.chunk.Long = r.pos, r.count, s.longRope
	s.chunk.Want = s.chunk.Want[:0]
	for _, row := range b.want {
		if row >= r.row && row < r.row+r.count {
			s.chunk.Want = append(s.chunk.Want, row-r.row)
		}
	}
	if s.chunk.Each == nil {
		s.chunk.Each = func(row int, logits []float32) error {
			finishLogits(s.model.Spec, logits)
			s.piece.deliver(s.chunk.Position+row, logits)
			return nil // an error of the callback leaves the network's keys and values complete
		}
	}
}

// writeInput writes the residual stream of a sequence's tokens into the network's input.
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

// cloneMemory copies a sequence's memory on the accelerator, between two passes.
func cloneMemory(m *Model, t SequenceMemory) (SequenceMemory, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	return t.Clone()
}

// closeMemory frees a sequence's memory on the accelerator, between two passes.
func closeMemory(m *Model, t SequenceMemory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = t.Close() // the caller cannot act on a driver's error
}
