package llmrun

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/gpupass"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/tiering"
)

// driver is the device of one opening, or of one plan: a GPU is opened once for the plan and the model.
type driver struct {
	gpu    *opencl.Context // nil until placeOnGPU
	memory driverMemory    // of the GPU's driver or of a split's
	// key and need are what later runs recall, and unopened is where memory and need come from; see
	// refuseUnopened.
	key      string
	need     deviceNeed
	unopened unopenedDriver
}

// close closes the GPU, after the model.
func (d *driver) close() (err error) {
	if d != nil && d.gpu != nil {
		err = d.gpu.Close()
		d.gpu = nil
	}
	return err
}

// openGPU opens the GPU that the options name, decides which layers it computes, and measures the
// memory of its driver.
func (o *Options) openGPU(ctx context.Context, f *modelfile.Files, name string, model exec.Options) (p exec.Placement, err error) {
	if o.driver.gpu != nil {
		return o.placeLayers(f, model)
	}
	_ = codeBytes() // before the driver's code is resident
	o.driver.memory, err = o.measureDriver(o.driver.key, func() error {
		if o.driver.gpu, err = opencl.Open(opencl.Options{Device: name, Memory: o.Device.Memory}); err != nil {
			return err
		}
		if p, err = o.placeLayers(f, model); err != nil {
			return err
		}
		model.Budget = tiering.New(0)
		model.Accelerator = gpupass.Accelerator{Context: o.driver.gpu, Layers: gpupass.All}
		return exec.RehearseLayers(ctx, f, model) // all kinds of layers, because another run may have more of them on the GPU
	})
	return p, err
}

// placeLayers decides which layers the open GPU computes. For later runs it also places each number
// of layers that a refusal may advise.
func (o *Options) placeLayers(f *modelfile.Files, model exec.Options) (exec.Placement, error) {
	place := func(with *Options) (exec.Placement, error) {
		model.Accelerator = with.accelerator(nil)
		p, err := exec.PlaceLayers(f, model)
		if err == nil {
			if o.driver.need.Placements == nil {
				o.driver.need.Placements = map[string]exec.Placement{}
			}
			o.driver.need.Placements[with.placementKey(&model)] = p
		}
		return p, err
	}
	p, err := place(o)
	if err != nil || o.Cache.Dir == "" || !p.SharesMemory || o.Device.GPULayers != 0 {
		return p, err
	}
	for layers := 1; layers <= p.Layers-p.First; layers++ {
		fewer := *o
		fewer.Device.GPULayers = layers
		if _, known := o.driver.need.Placements[fewer.placementKey(&model)]; !known {
			if _, err := place(&fewer); err != nil {
				return p, err
			}
		}
	}
	return p, nil
}

// adviseLayers adds to the refusal of a budget that a GPU which shares the machine's memory may compute
// fewer layers: the most with which the model runs, or one if it then needs less. The engine does not
// choose fewer itself, because the answer depends on which layers the GPU computes.
func (o *Options) adviseLayers(ctx context.Context, f *modelfile.Files, perTensor *exec.W8A8, a *admission, refused error) error {
	if o.Device.GPULayers != 0 || a.placed == nil || !a.placed.SharesMemory || a.placed.layers() < 2 || !errors.Is(refused, ErrBudget) {
		return refused
	}
	try := func(layers int) (admission, error) {
		with := *o
		with.Device.GPULayers = layers
		a, err := with.admitContext(ctx, f, perTensor)
		return with.admitPromptTokens(ctx, f, perTensor, a, err)
	}
	one, err := try(1)
	if errors.Is(err, ErrBudget) {
		if least := one.minimum(); least < a.minimum() {
			return fmt.Errorf("%w, or let the GPU compute fewer layers: with --gpu-layers 1 the budget must be at least %s", refused, tiering.AtLeastText(least))
		}
		return refused
	}
	if err != nil {
		return err
	}
	fits := 1
	for most := a.placed.layers(); most-fits > 1; {
		layers := (fits + most) / 2
		switch _, err := try(layers); {
		case err == nil:
			fits = layers
		case errors.Is(err, ErrBudget):
			most = layers
		default:
			return err
		}
	}
	a.layersThatFit = fits
	return fmt.Errorf("%w, or let the GPU compute only the last %d of %d layers (--gpu-layers %d)", refused, fits, a.placed.Layers, fits)
}
