package llmrun

import (
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/tiering"
)

// Placement describes which layers of a model a GPU computes.
type Placement struct {
	Device string `json:"device"` // the GPU's name
	// Layers is how many of the ModelLayers layers are on the GPU: the last ones, with the
	// output matrix.
	Layers      int `json:"layers"`
	ModelLayers int `json:"of"`
	Context     int `json:"context"` // tokens of a sequence that fit beside the layers
	// Held is the GPU memory in use, Need what a sequence of Context tokens will use, and
	// Memory the total.
	Held   int64 `json:"held_bytes"`
	Need   int64 `json:"need_bytes"`
	Memory int64 `json:"memory_bytes"`
	// Host is the memory of the weights that stay with the CPU: the other layers and the
	// embedding.
	Host int64 `json:"here_bytes"`
}

func newPlacement(p *exec.Placement) *Placement {
	return &Placement{
		Device: p.Device, Layers: p.Layers - p.First, ModelLayers: p.Layers, Context: p.Context,
		Held: p.Held, Need: p.Need, Memory: p.Memory, Host: p.HostBytes,
	}
}

// PlanPlacement returns which layers of a model a GPU would compute with these options, whose
// Device.Name must be a GPU. It opens the GPU's driver and reads no weights.
func PlanPlacement(path string, opts Options) (_ *Placement, err error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if _, ok := opts.onGPU(); !ok {
		return nil, fmt.Errorf("%w: Device.Name is %q; it must be gpu, or gpu: and a part of a device's name", ErrOptions, opts.Device.Name)
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
	p, err := exec.PlaceLayers(f, exec.Options{Chunk: plan.Chunk, Context: opts.Context, Accelerator: opts.accelerator(nil)})
	if err != nil {
		return nil, err
	}
	return newPlacement(&p), nil
}

// Placement returns which layers the GPU computes, or nil if Device.Name is not a GPU.
func (e *Engine) Placement() *Placement {
	p := e.model.Placement()
	if p == nil {
		return nil
	}
	return newPlacement(p)
}

// applyPlacement limits sessions to the context that fits on the GPU.
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

// contextLimit returns the context limit of sessions on the GPU, and a notice for the user if
// that is less than limit or if the GPU does not compute all layers. automatic says that the
// user left the number of layers to the engine.
func (p *Placement) contextLimit(limit int, automatic bool) (longest int, notice string) {
	longest = min(limit, p.Context)
	switch {
	case automatic && p.Layers < p.ModelLayers:
		notice = fmt.Sprintf("%s has room for the last %d of %d layers beside a context of %d tokens; the CPU computes the other layers", p.Device, p.Layers, p.ModelLayers, longest)
	case longest < limit:
		notice = fmt.Sprintf("%s has room for a context of %d tokens, not %d", p.Device, longest, limit)
	}
	return longest, notice
}
