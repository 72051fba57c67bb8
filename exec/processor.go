package exec

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// Processor computes whole passes of models in place of this package's own
// kernels: a GPU with memory of its own.
type Processor interface {
	// Open makes ready for a network whose prompts are read in chunks of so many
	// tokens. A network that the processor cannot compute is refused with an error
	// that wraps ErrUnsupported.
	Open(spec *Spec, chunk int, budget *tiering.Budget) (Network, error)
}

// Network is a model on a processor. First it takes weights, then it reads texts.
// Its methods are called by one goroutine at a time.
type Network interface {
	// TakeLayer and TakeEnds copy weights, which are gone afterwards.
	TakeLayer(l int, w *LayerWeights) error
	TakeEnds(norm []float32 /* [Dim] */, head Linear /* [Vocab, Dim] */) error
	// NewText returns the memory of an empty text.
	NewText() (TextMemory, error)
	// Input is where the embedding rows of the next chunk go. It is valid until Read.
	Input(tokens int) []float32 /* [tokens, Dim] */
	// Read reads a chunk, the first of which is at a position of the text, and hands
	// over the logits after the wanted tokens, ascending, as the output matrix gives
	// them. What the text holds from the position on is replaced.
	Read(ctx context.Context, t TextMemory, c *Chunk) error
	Close() error
}

// TextMemory is what a network remembers of a text.
type TextMemory interface {
	Clone() (TextMemory, error)
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
	Matrix
	Bias []float32 // [Rows]
}

// LayerWeights are what a network takes of a layer. What it does not have is zero.
type LayerWeights struct {
	AttnNorm, FFNNorm []float32 // [Dim]
	Q, K, V, O        Linear
	QNorm, KNorm      []float32
	Gate, Up, Down    Linear
}

// Angles writes the cosines and sines of a position.
func (t *RopeTable) Angles(cos, sin []float32 /* [Dim/2] */, pos int, long bool) {
	t.angles(cos, sin, pos, long)
}

// elsewhere is a model's place on a processor.
type elsewhere struct {
	network Network
	chunk   int
	raw     []byte // a row of the embedding as the file has it
}

// loadElsewhere loads a model for a processor, layer by layer: only the embedding
// stays in the machine's own memory.
func loadElsewhere(ctx context.Context, f *Files, spec *Spec, o Options) (_ *Model, err error) {
	m := &Model{Spec: spec, budget: o.Budget, weights: &weights{layers: make([]layerWeights, len(spec.Layers))}}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if m.cache, err = kv.NewCache(spec.KVShape(o.KV), o.Budget, kv.Options{}); err != nil {
		return nil, err
	}
	m.cold = newColdKV(m, 0)
	m.workers = hetero.NewWorkers(1) // the processor's host
	network, err := o.Processor.Open(spec, o.Chunk, o.Budget)
	if err != nil {
		return nil, err
	}
	m.elsewhere = &elsewhere{network: network, chunk: o.Chunk}
	ts, err := f.tensorsFor(true)
	if err != nil {
		return nil, err
	}
	ld := &loader{ts: ts, spec: spec, budget: o.Budget, exact: true, progress: o.Progress}
	err = ld.handOver(ctx, m.weights, network)
	m.frames = ld.frames
	if err != nil {
		return nil, err
	}
	m.elsewhere.raw = make([]byte, m.weights.embed.rowBytes())
	m.rows, err = newRows(&m.weights.embed, o.Budget, rowMemory{})
	return m, err
}

// handOver reads a model part by part and gives each to a network.
func (ld *loader) handOver(ctx context.Context, w *weights, network Network) error {
	return ld.partByPart(ctx, w, func(l *layout) error {
		keep, err := ld.give(l, w, network)
		if err == nil && !keep {
			last := len(ld.frames) - 1
			ld.frames[last].Free()
			ld.frames = ld.frames[:last]
		}
		return err
	})
}

// partByPart reads a model so that no more than one part of it need be in memory as
// the file has it: take is called with each, whose frame is the loader's last.
func (ld *loader) partByPart(ctx context.Context, w *weights, take func(*layout) error) error {
	plans, err := ld.planAll(w)
	if err != nil {
		return err
	}
	for i := range plans {
		ld.total += plans[i].readBytes()
	}
	queue := prefetch.New(loadReaders)
	defer queue.Close()
	for i := range plans {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := ld.readAll(ctx, queue, plans[i:i+1]); err != nil {
			return err
		}
		if err := take(&plans[i]); err != nil {
			return fmt.Errorf("%s of %s: %w", plans[i].name, ld.ts.path, err)
		}
	}
	return nil
}

// give hands a part that was read to a network, and reports whether it has to stay
// in memory as well.
func (ld *loader) give(l *layout, w *weights, network Network) (keep bool, err error) {
	switch l.kind {
	case layerLayout:
		from := &w.layers[l.layer]
		err = network.TakeLayer(l.layer, from.view())
		*from = layerWeights{}
	case endsLayout:
		head := Linear{w.head.Matrix, w.head.bias}
		if !w.head.present() {
			w.tied, keep = true, true
			head.Matrix = w.embed.Matrix
		}
		err = network.TakeEnds(w.norm.weight, head)
		w.head, w.norm = linear{}, gain{}
	case embeddingLayout:
		keep = true
	}
	return keep, err
}

// view returns the layer's weights for those who do not compute here.
func (w *layerWeights) view() *LayerWeights {
	of := func(l *linear) Linear { return Linear{l.Matrix, l.bias} }
	return &LayerWeights{
		AttnNorm: w.attnNorm.weight, FFNNorm: w.ffnNorm.weight,
		Q: of(&w.q), K: of(&w.k), V: of(&w.v), O: of(&w.o), QNorm: w.qNorm.weight, KNorm: w.kNorm.weight,
		Gate: of(&w.mlp.gate), Up: of(&w.mlp.up), Down: of(&w.mlp.down),
	}
}

// forwardElsewhere is forward on a processor.
func (m *Model) forwardElsewhere(ctx context.Context, b *Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	for i := range b.runs {
		if err := m.readElsewhere(ctx, b, &b.runs[i]); err != nil {
			return err
		}
	}
	for _, r := range b.runs {
		r.seq.ids = append(r.seq.ids, b.ids[r.row:r.row+r.count]...)
	}
	return nil
}

// readElsewhere reads the tokens of one sequence.
func (m *Model) readElsewhere(ctx context.Context, b *Batch, r *run) (err error) {
	e, s := m.elsewhere, r.seq
	if s.memory == nil {
		if s.memory, err = e.network.NewText(); err != nil {
			return err
		}
	}
	x := e.network.Input(r.count)
	if err := m.rows.lookup(ctx, x, b.ids[r.row:r.row+r.count], e.raw); err != nil {
		return err
	}
	if scale := m.Spec.EmbedScale; scale != 1 {
		quant.Scale(x, scale)
	}
	s.chunk.Position, s.chunk.Tokens, s.chunk.Long = r.pos, r.count, s.long
	s.chunk.Want = s.chunk.Want[:0]
	for _, row := range b.want {
		if row >= r.row && row < r.row+r.count {
			s.chunk.Want = append(s.chunk.Want, row-r.row)
		}
	}
	if s.chunk.Each == nil {
		s.chunk.Each = func(row int, logits []float32) error {
			m.Spec.finishLogits(logits)
			return s.batch.each(s.chunk.Position+row, logits)
		}
	}
	return e.network.Read(ctx, s.memory, &s.chunk)
}

// cloneMemory copies what a processor remembers, between two passes.
func (m *Model) cloneMemory(t TextMemory) (TextMemory, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	return t.Clone()
}

// closeMemory gives memory back, between two passes.
func (m *Model) closeMemory(t TextMemory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = t.Close() // whoever closes a text cannot mend the driver
}
