package llmrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/ended"
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
	// Host is the memory of the weights that stay with the CPU: as much of the other layers as the
	// memory plan keeps in memory.
	Host int64 `json:"here_bytes"`
}

func newPlacement(p *exec.Placement) *Placement {
	return &Placement{
		Device: p.Device, Layers: p.Layers - p.First, ModelLayers: p.Layers, Context: p.Context,
		Held: p.Held, Need: p.Need, Memory: p.Memory, Host: p.HostBytes,
	}
}

// gpuPlacement is which layers a GPU computes. A nil gpuPlacement means that there is no GPU.
type gpuPlacement struct {
	exec.Placement
	requested int // Options.Context
}

// placeOnGPU decides which layers the GPU computes: by its own memory, whatever the budget is. It
// returns nil if the options name no GPU. It opens the GPU's driver and reads no weights.
func (o *Options) placeOnGPU(ctx context.Context, f *modelfile.Files) (*gpuPlacement, error) {
	name, ok := o.onGPU()
	if !ok {
		return nil, nil
	}
	spec, err := f.Spec()
	if err != nil {
		return nil, err
	}
	model := exec.Options{Chunk: o.deviceChunk(spec), Context: o.Context}
	if o.driver.unopened != driverOpens {
		p, err := o.unopenedPlacement(f, spec, &model)
		return &gpuPlacement{p, o.Context}, err
	}
	p, err := o.openGPU(ctx, f, name, model)
	return &gpuPlacement{p, o.Context}, err
}

// deviceChunk returns the tokens of a prefill chunk for which a device's kernels are compiled. It
// does not depend on the budget, because results of devices depend on it.
func (o *Options) deviceChunk(spec *arch.Spec) int {
	context := cmp.Or(min(o.Context, spec.Context), spec.Context)
	return min(cmp.Or(o.Memory.Chunk, exec.DefaultChunk), tiering.ChunkOf(context))
}

// layers returns the number of layers that the GPU computes.
func (p *gpuPlacement) layers() int {
	if p == nil {
		return 0
	}
	return p.Layers - p.First
}

// addTo adds what the GPU takes of the host's memory to the shape of the other layers.
func (p *gpuPlacement) addTo(s *tiering.Shape) {
	if p == nil {
		return
	}
	s.Head.Name = "ends" // of which the host has nothing
	s.OtherPinned += p.HostBuffers
	s.Upload = p.HostUpload
	s.KVBytesPerToken += p.HostKVPerToken
}

// PlanPlacement returns which layers of a model a GPU would compute with these options, whose
// Device.Name must be a GPU. It opens the GPU's driver and reads no weights. [PlanMemory] plans the
// memory of the other layers, too.
func PlanPlacement(ctx context.Context, path string, opts Options) (_ *Placement, err error) {
	defer ended.Say(ctx, &err)
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if _, ok := opts.onGPU(); !ok {
		return nil, fmt.Errorf("%w: Device.Name is %q; it must be gpu, or gpu: and a part of a device's name", ErrOptions, opts.Device.Name)
	}
	opts.shareSteps()
	f, err := opts.openChanged(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), opts.driver.close(), opts.closeBeside()) }()
	a, err := opts.decide(ctx, f, nil, nil)
	if err != nil {
		return nil, err
	}
	return a.placement(), nil
}

// placement returns the placement of a plan; nil without a GPU.
func (a *admission) placement() *Placement {
	if a.placed == nil {
		return nil
	}
	p := newPlacement(&a.placed.Placement)
	if p.Host = 0; a.plan != nil {
		p.Host = a.plan.PinnedBytes()
	}
	return p
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
