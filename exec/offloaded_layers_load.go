package exec

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/tiering"
)

// openAccelerator opens an accelerator and uploads its layers, before the CPU's part is loaded. The
// CPU computes the layers that the accelerator does not take. They come before the accelerator's,
// so that a pass copies the residual stream to the accelerator only once.
func openAccelerator(ctx context.Context, m *Model, f *modelfile.Files, o *Options) error {
	h, err := newUploader(f, m.Spec, o, m.scheduler)
	if err != nil {
		return err
	}
	network, place, err := h.open(o)
	if err != nil {
		return err
	}
	m.offloadedLayers = &offloadedLayers{network: network, placement: place, chunk: o.Chunk}
	if h.Total, err = checkHostRoom(f, &place, o); err != nil {
		return err
	}
	if err := h.read(ctx, network); err != nil {
		h.Free()
		return err
	}
	o.Progress = continued(h.Loader, o.Progress)
	m.offloadedLayers.raw = make([]byte, h.weights.Embed.LookupBytes())
	return nil
}

// checkHostRoom checks, before weights are read, that the budget has room for the host's part,
// and returns its bytes.
func checkHostRoom(f *modelfile.Files, place *Placement, o *Options) (bytes int64, err error) {
	bytes = place.HostBytes
	if o.Plan != nil {
		bytes = o.Plan.PinnedBytes()
	}
	room, err := o.Budget.Reserve(tiering.Pinned, max(bytes, place.HostUpload))
	if err != nil {
		return 0, fmt.Errorf("%s: host memory for %d layers and the embedding: %w", f.Path, place.First, err)
	}
	room.Release() // the loader reserves it part by part
	return bytes, nil
}

// PlaceLayers returns the part of the model that Options.Accelerator would take. It reads no
// weights and leaves nothing open.
func PlaceLayers(f *modelfile.Files, o Options) (Placement, error) {
	spec, err := f.Spec()
	if err != nil {
		return Placement{}, err
	}
	o.setDefaults()
	h, err := newUploader(f, spec, &o, nil)
	if err != nil {
		return Placement{}, err
	}
	network, place, err := h.open(&o)
	if err != nil {
		return Placement{}, err
	}
	return place, network.Close()
}

// uploader reads weights layout by layout and passes each to a network.
type uploader struct {
	*weights.Loader
	weights weights.Weights
	layouts []weights.Layout // once the network is open, its part of them
}

// newUploader plans the layouts and checks every tensor. The scheduler admits the reads.
func newUploader(f *modelfile.Files, spec *arch.Spec, o *Options, scheduler *prefetch.Scheduler) (*uploader, error) {
	if f.HasBeside() {
		return nil, fmt.Errorf("%w: %s: an accelerator has no adapters beside the weights: merge them", arch.ErrUnsupported, f.Path)
	}
	ts, err := f.TensorsFor(true)
	if err != nil {
		return nil, err
	}
	h := &uploader{
		Loader:  &weights.Loader{Tensors: ts, Spec: spec, Budget: o.Budget, Exact: true, Progress: o.Progress, Scheduler: scheduler},
		weights: weights.Weights{Layers: make([]weights.LayerWeights, len(spec.Layers))},
	}
	if h.layouts, err = h.PlanAll(&h.weights); err == nil && weights.HasScales(h.layouts) {
		err = fmt.Errorf("%w: %s: an accelerator has no scales of whole matrices (NVFP4)", arch.ErrUnsupported, f.Path)
	}
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
	uploaded, largest := h.layouts[:0:0], int64(0)
	for i := range h.layouts {
		l := &h.layouts[i]
		upload := l.Kind == weights.EndsLayout || l.Kind == weights.LayerLayout && l.Layer >= p.First
		if upload {
			uploaded = append(uploaded, *l)
			largest = max(largest, int64(l.Size))
		}
		if !upload || l.Kind == weights.EndsLayout && !h.weights.Head.Present() {
			p.HostBytes += int64(l.Size)
		}
	}
	h.layouts, p.HostUpload = uploaded, p.HostUpload+largest
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

// read reads the network's layouts and passes each to it.
func (h *uploader) read(ctx context.Context, network Network) error {
	return h.LoadSequentially(ctx, h.layouts, func(l *weights.Layout) error {
		defer h.Free()
		if l.Kind == weights.EndsLayout {
			return network.UploadOutput(h.weights.Norm.Weight, h.head())
		}
		from := &h.weights.Layers[l.Layer]
		err := network.UploadLayer(l.Layer, layerView(from))
		*from = weights.LayerWeights{}
		return err
	})
}

// continued returns a progress function for weights that are read after others.
func continued(read *weights.Loader, progress func(done, total int64)) func(done, total int64) {
	if progress == nil {
		return nil
	}
	return func(done, total int64) { progress(read.Done+done, read.Done+total) }
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
