package exec

import (
	"context"
	"fmt"
	"slices"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/tiering"
)

// loadOffloaded loads a model for an accelerator. The CPU computes the layers that the
// accelerator does not take. They come before the accelerator's, so that a pass copies the
// residual stream to the accelerator only once.
func loadOffloaded(ctx context.Context, f *modelfile.Files, spec *arch.Spec, o Options) (_ *Model, err error) {
	m := &Model{Spec: spec, budget: o.Budget, weights: &weights.Weights{}}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	h, err := newUploader(f, spec, &o)
	if err != nil {
		return nil, err
	}
	network, place, err := h.open(&o)
	if err != nil {
		return nil, err
	}
	m.offloadedLayers = &offloadedLayers{network: network, placement: place, chunk: o.Chunk}
	room, err := o.Budget.Reserve(tiering.Pinned, place.HostBytes)
	if err != nil {
		return nil, fmt.Errorf("%s: host memory for %d layers and the embedding: %w", f.Path, place.First, err)
	}
	room.Release() // the loader reserves it part by part
	if err := openHostCache(m, &o); err != nil {
		return nil, err
	}
	if err := loadFirstLayers(ctx, m, f, h, &o); err != nil {
		return nil, err
	}
	if err := uploadLayers(ctx, m, h); err != nil {
		return nil, err
	}
	if m.embedding, err = weights.NewEmbeddingLookup(&m.weights.Embed, o.Budget, weights.LookupMemory{}); err != nil {
		return nil, err
	}
	if place.First > 0 {
		m.pass, err = newPass(m, o.Chunk)
	}
	return m, err
}

// openHostCache creates the KV cache and the threads of the layers that the CPU computes. Without
// such layers, one thread copies the host's data.
func openHostCache(m *Model, o *Options) (err error) {
	shape, threads := m.Spec.KVShape(o.KV), 1
	if first := m.offloadedLayers.placement.First; first > 0 {
		clear(shape.KVHeads[first:]) // the accelerator holds the KV of its layers
		threads = o.Threads
	}
	if m.cache, err = kv.NewCache(shape, o.Budget, kv.Options{PageTokens: o.KVPage}); err != nil {
		return err
	}
	m.kvReader = newReader(m, 0)
	m.workers = threadpool.New(threads)
	return nil
}

// uploadLayers uploads the accelerator's layers and keeps the embedding in the host's memory.
func uploadLayers(ctx context.Context, m *Model, h *uploader) error {
	err := h.read(ctx, m.offloadedLayers.network)
	m.frames = append(m.frames, h.Frames...)
	if err != nil {
		return err
	}
	m.weights.Embed, m.weights.Tied = h.weights.Embed, h.weights.Tied
	m.offloadedLayers.raw = make([]byte, m.weights.Embed.RowBytes())
	return nil
}

// PlaceLayers returns the part of the model that Options.Accelerator would take. It reads no
// weights and leaves nothing open.
func PlaceLayers(f *modelfile.Files, o Options) (Placement, error) {
	spec, err := f.Spec()
	if err != nil {
		return Placement{}, err
	}
	o.setDefaults()
	h, err := newUploader(f, spec, &o)
	if err != nil {
		return Placement{}, err
	}
	network, place, err := h.open(&o)
	if err != nil {
		return Placement{}, err
	}
	return place, network.Close()
}

// loadFirstLayers loads the layers that the CPU computes, if there are any. It removes them from
// the uploader's layouts and adds their bytes to its progress.
func loadFirstLayers(ctx context.Context, m *Model, f *modelfile.Files, h *uploader, o *Options) error {
	first := m.offloadedLayers.placement.First
	h.layouts = slices.DeleteFunc(h.layouts, func(l weights.Layout) bool { return l.Before(first) })
	if first == 0 {
		return nil
	}
	if err := checkKernels(o.KV, m.Spec.HeadDim); err != nil {
		return err
	}
	ts, err := f.TensorsFor(o.Exact)
	if err != nil {
		return err
	}
	m.weights.Layers = make([]weights.LayerWeights, first)
	ld := &weights.Loader{Tensors: ts, Spec: m.Spec, Budget: o.Budget, Exact: o.Exact, Progress: o.Progress, Total: weights.ReadBytes(h.layouts)}
	err = ld.LoadLayers(ctx, m.weights)
	m.frames = ld.Frames
	h.Done, h.Total = ld.Done, ld.Done
	return err
}

// uploader reads weights layout by layout and passes each to a network. Only the embedding
// stays in the host's memory.
type uploader struct {
	*weights.Loader
	weights weights.Weights
	layouts []weights.Layout
}

// newUploader plans the layouts and checks every tensor.
func newUploader(f *modelfile.Files, spec *arch.Spec, o *Options) (*uploader, error) {
	ts, err := f.TensorsFor(true)
	if err != nil {
		return nil, err
	}
	h := &uploader{
		Loader:  &weights.Loader{Tensors: ts, Spec: spec, Budget: o.Budget, Exact: true, Progress: o.Progress},
		weights: weights.Weights{Layers: make([]weights.LayerWeights, len(spec.Layers))},
	}
	h.layouts, err = h.PlanAll(&h.weights)
	return h, err
}

// open opens the accelerator's part of the model and adds up the weights that stay in the host's
// memory.
func (h *uploader) open(o *Options) (Network, Placement, error) {
	network, err := o.Accelerator.Open(h.offer(o))
	if err != nil {
		return nil, Placement{}, err
	}
	p := network.Placement()
	for i := range h.layouts {
		l := &h.layouts[i]
		if l.Before(p.First) || l.Kind == weights.EmbeddingLayout || l.Kind == weights.EndsLayout && !h.weights.Head.Present() {
			p.HostBytes += int64(l.Size)
		}
	}
	return network, p, nil
}

// offer describes the model to an accelerator.
func (h *uploader) offer(o *Options) *Offer {
	for i := range h.layouts {
		h.layouts[i].Describe()
		for j := range h.layouts[i].Places {
			if p := &h.layouts[i].Places[j]; p.Vector != nil {
				*p.Vector = make([]float32, p.Slice.Rows*p.Slice.Cols)
			}
		}
	}
	offer := &Offer{Spec: h.Spec, Chunk: o.Chunk, Context: min(o.Context, h.Spec.Context), Head: h.head(), Budget: o.Budget}
	for i := range h.weights.Layers {
		offer.Layers = append(offer.Layers, layerView(&h.weights.Layers[i]))
	}
	return offer
}

// head returns the output matrix.
func (h *uploader) head() Linear {
	if w := &h.weights; w.Head.Present() {
		return Linear{w.Head.Matrix, w.Head.Bias}
	}
	return Linear{Matrix: h.weights.Embed.Matrix}
}

// read reads the layouts and passes each to a network.
func (h *uploader) read(ctx context.Context, network Network) error {
	return h.LoadSequentially(ctx, h.layouts, func(l *weights.Layout) error {
		keep, err := h.upload(l, network)
		if err == nil && !keep {
			last := len(h.Frames) - 1
			h.Frames[last].Free()
			h.Frames = h.Frames[:last]
		}
		return err
	})
}

// upload passes a layout to a network and reports whether the host must keep it too.
func (h *uploader) upload(l *weights.Layout, network Network) (keep bool, err error) {
	w := &h.weights
	switch l.Kind {
	case weights.LayerLayout:
		from := &w.Layers[l.Layer]
		err = network.UploadLayer(l.Layer, layerView(from))
		*from = weights.LayerWeights{}
	case weights.EndsLayout:
		w.Tied = !w.Head.Present()
		keep = w.Tied
		err = network.UploadOutput(w.Norm.Weight, h.head())
		w.Head, w.Norm = weights.Linear{}, weights.Gain{}
	case weights.EmbeddingLayout:
		keep = true
	}
	return keep, err
}

// layerView returns a layer's weights in the form that networks receive.
func layerView(w *weights.LayerWeights) *LayerWeights {
	linear := func(l *weights.Linear) Linear { return Linear{l.Matrix, l.Bias} }
	return &LayerWeights{
		AttnNorm: w.AttnNorm.Weight, FFNNorm: w.FFNNorm.Weight,
		Q: linear(&w.Q), K: linear(&w.K), V: linear(&w.V), O: linear(&w.O), QNorm: w.QNorm.Weight, KNorm: w.KNorm.Weight,
		Gate: linear(&w.MLP.Gate), Up: linear(&w.MLP.Up), Down: linear(&w.MLP.Down),
	}
}
