package llmrun

import (
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/tiering"
)

// Placement says where the layers of a model are, part of which a GPU computes, or
// all.
type Placement struct {
	Device string `json:"device"` // the GPU's name
	// Layers is how many of the model's, in all Of, are on the GPU: the last ones, with
	// the output matrix.
	Layers      int `json:"layers"`
	ModelLayers int `json:"of"`
	Context     int `json:"context"` // tokens of a text for which there is room
	// Of the GPU's memory what is taken now, what will be with such a text, and what
	// there is.
	Held   int64 `json:"held_bytes"`
	Need   int64 `json:"need_bytes"`
	Memory int64 `json:"memory_bytes"`
	// Host is the weights in the machine's memory: those of the other layers, and the
	// embedding.
	Host int64 `json:"here_bytes"`
}

func newPlacement(p *exec.Placement) *Placement {
	return &Placement{
		Device: p.Processor, Layers: p.Layers - p.First, ModelLayers: p.Layers, Context: p.Context,
		Held: p.Held, Need: p.Need, Memory: p.Memory, Host: p.HostBytes,
	}
}

// PlanPlacement says which layers of a model a GPU would compute with these options.
// It looks for the GPU, which has to be their Device, and reads no weights.
func PlanPlacement(path string, opts Options) (_ *Placement, err error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if _, ok := opts.onGPU(); !ok {
		return nil, fmt.Errorf("%w: Device is %q; it must be gpu, or gpu: and part of a device's name", ErrOptions, opts.Device.Name)
	}
	f, err := openMerged(opts.fsys(), path, opts.Adapters, opts.Quantize)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	shape, need, err := opts.planInputs(f, nil, 0)
	if err != nil {
		return nil, err
	}
	plan, err := makePlan(shape, need, tiering.Rates{})
	if err != nil {
		return nil, err
	}
	p, err := exec.PlaceLayers(f, exec.Options{Chunk: plan.Chunk, Context: opts.Context, Processor: opts.processor(nil)})
	if err != nil {
		return nil, err
	}
	return newPlacement(&p), nil
}

// Placement returns where the layers are, nil without a GPU as Device.
func (e *Engine) Placement() *Placement {
	p := e.model.Placement()
	if p == nil {
		return nil
	}
	return newPlacement(p)
}

// applyPlacement makes texts as long as a GPU has room for.
func (e *Engine) applyPlacement(opts *Options) {
	p := e.Placement()
	if p == nil {
		return
	}
	longest, notice := p.contextLimit(e.limit, opts.Device.GPULayers == 0)
	if notice != "" && opts.Notify != nil {
		opts.Notify(notice)
	}
	e.limit = longest
}

// contextLimit returns how long texts are that could have so many tokens, and what the owner
// may not expect of the placement. chosen: he left the number of layers to the GPU.
func (p *Placement) contextLimit(limit int, chosen bool) (longest int, notice string) {
	longest = min(limit, p.Context)
	switch {
	case chosen && p.Layers < p.ModelLayers:
		notice = fmt.Sprintf("%s has room for the last %d of %d layers, beside texts of %d tokens: the processor computes the others", p.Device, p.Layers, p.ModelLayers, longest)
	case longest < limit:
		notice = fmt.Sprintf("%s has room for texts of %d tokens, of at most %d", p.Device, longest, limit)
	}
	return longest, notice
}
