package exec

import (
	"context"
	"fmt"
	"slices"

	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/tiering"
)

// loadElsewhere loads a model for a processor. Layers that it does not take are
// computed here, before its own, so that the stream changes places once in a pass.
func loadElsewhere(ctx context.Context, f *Files, spec *Spec, o Options) (_ *Model, err error) {
	m := &Model{Spec: spec, budget: o.Budget, weights: &weights{}}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	h, err := newHandOver(f, spec, &o)
	if err != nil {
		return nil, err
	}
	network, place, err := h.open(&o)
	if err != nil {
		return nil, err
	}
	m.elsewhere = &elsewhere{network: network, place: place, chunk: o.Chunk}
	room, err := o.Budget.Reserve(tiering.Pinned, place.Here)
	if err != nil {
		return nil, fmt.Errorf("%d layers and the embedding of %s stay in the machine's memory: %w", place.First, f.Path, err)
	}
	room.Release()                          // parts take it one by one
	shape, threads := spec.KVShape(o.KV), 1 // the processor's host
	if place.First > 0 {
		clear(shape.KVHeads[place.First:]) // the processor keeps those
		threads = o.Threads
	}
	if m.cache, err = kv.NewCache(shape, o.Budget, kv.Options{PageTokens: o.KVPage}); err != nil {
		return nil, err
	}
	m.cold = newColdKV(m, 0)
	m.workers = threadpool.NewWorkers(threads)
	if err := m.loadFirst(ctx, f, h, &o); err != nil {
		return nil, err
	}
	err = h.read(ctx, network)
	m.frames = append(m.frames, h.frames...)
	if err != nil {
		return nil, err
	}
	m.weights.embed, m.weights.tied = h.weights.embed, h.weights.tied
	m.elsewhere.raw = make([]byte, m.weights.embed.rowBytes())
	if m.rows, err = newRows(&m.weights.embed, o.Budget, rowMemory{}); err != nil {
		return nil, err
	}
	if place.First > 0 {
		m.pass, err = newPass(m, o.Chunk)
	}
	return m, err
}

// Place says which part of the model Options.Processor would take. No weights are
// read, and nothing stays open.
func (f *Files) Place(o Options) (Placement, error) {
	spec, err := f.Spec()
	if err != nil {
		return Placement{}, err
	}
	o.setDefaults()
	h, err := newHandOver(f, spec, &o)
	if err != nil {
		return Placement{}, err
	}
	network, place, err := h.open(&o)
	if err != nil {
		return Placement{}, err
	}
	return place, network.Close()
}

// loadFirst loads the layers that are computed here, if there are any, and tells who
// loads the others how much it was.
func (m *Model) loadFirst(ctx context.Context, f *Files, h *handOver, o *Options) error {
	first := m.elsewhere.place.First
	h.plans = slices.DeleteFunc(h.plans, func(l layout) bool { return l.before(first) })
	if first == 0 {
		return nil
	}
	if err := checkKernels(o.KV, m.Spec.HeadDim); err != nil {
		return err
	}
	ts, err := f.tensorsFor(o.Exact)
	if err != nil {
		return err
	}
	m.weights.layers = make([]layerWeights, first)
	ld := &loader{ts: ts, spec: m.Spec, budget: o.Budget, exact: o.Exact, progress: o.Progress, total: readBytes(h.plans)}
	err = ld.loadLayers(ctx, m.weights)
	m.frames = ld.frames
	h.done, h.total = ld.done, ld.done
	return err
}

// loadLayers reads the layers of a model, without its ends. The caller has to free the
// frames after an error too.
func (ld *loader) loadLayers(ctx context.Context, w *weights) error {
	plans, err := ld.planLayers(w)
	if err != nil {
		return err
	}
	for i := range plans {
		ld.findSection(&plans[i])
	}
	ld.total += readBytes(plans)
	queue := prefetch.New(loadReaders)
	err = ld.readAll(ctx, queue, plans)
	queue.Close() // nothing is written to frames from here on
	if err != nil {
		return err
	}
	tiering.JoinPages(ld.frames)
	return ld.giveOrders()
}

// handOver is the way of weights to a network, part by part. Only the embedding stays
// in the machine's own memory.
type handOver struct {
	*loader
	weights weights
	plans   []layout
}

// newHandOver checks every tensor.
func newHandOver(f *Files, spec *Spec, o *Options) (*handOver, error) {
	ts, err := f.tensorsFor(true)
	if err != nil {
		return nil, err
	}
	h := &handOver{
		loader:  &loader{ts: ts, spec: spec, budget: o.Budget, exact: true, progress: o.Progress},
		weights: weights{layers: make([]layerWeights, len(spec.Layers))},
	}
	h.plans, err = h.planAll(&h.weights)
	return h, err
}

// open has the processor take its part.
func (h *handOver) open(o *Options) (Network, Placement, error) {
	network, err := o.Processor.Open(h.offer(o))
	if err != nil {
		return nil, Placement{}, err
	}
	p := network.Placement()
	for i := range h.plans {
		l := &h.plans[i]
		if l.before(p.First) || l.kind == embeddingLayout || l.kind == endsLayout && !h.weights.head.present() {
			p.Here += int64(l.size)
		}
	}
	return network, p, nil
}

// before reports whether the layout belongs to a layer before one.
func (l *layout) before(layer int) bool {
	return (l.kind == layerLayout || l.kind == expertLayout) && l.layer < layer
}

// offer describes the model for a processor.
func (h *handOver) offer(o *Options) *Offer {
	for i := range h.plans {
		h.plans[i].describe()
		for j := range h.plans[i].places {
			if p := &h.plans[i].places[j]; p.vector != nil {
				*p.vector = make([]float32, p.slot.rows*p.slot.cols)
			}
		}
	}
	offer := &Offer{Spec: h.spec, Chunk: o.Chunk, Context: min(o.Context, h.spec.Context), Head: h.head(), Budget: o.Budget}
	for i := range h.weights.layers {
		offer.Layers = append(offer.Layers, h.weights.layers[i].view())
	}
	return offer
}

// head returns the output matrix.
func (h *handOver) head() Linear {
	if w := &h.weights; w.head.present() {
		return Linear{w.head.Matrix, w.head.bias}
	}
	return Linear{Matrix: h.weights.embed.Matrix}
}

// read reads the parts that are planned and gives each to a network.
func (h *handOver) read(ctx context.Context, network Network) error {
	return h.partByPart(ctx, h.plans, func(l *layout) error {
		keep, err := h.give(l, network)
		if err == nil && !keep {
			last := len(h.frames) - 1
			h.frames[last].Free()
			h.frames = h.frames[:last]
		}
		return err
	})
}

// partByPart reads a model so that no more than one part of it need be in memory as
// the file has it: take is called with each, whose frame is the loader's last.
func (ld *loader) partByPart(ctx context.Context, plans []layout, take func(*layout) error) error {
	ld.total += readBytes(plans)
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
func (h *handOver) give(l *layout, network Network) (keep bool, err error) {
	w := &h.weights
	switch l.kind {
	case layerLayout:
		from := &w.layers[l.layer]
		err = network.TakeLayer(l.layer, from.view())
		*from = layerWeights{}
	case endsLayout:
		w.tied = !w.head.present()
		keep = w.tied
		err = network.TakeEnds(w.norm.weight, h.head())
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
