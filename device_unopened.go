package llmrun

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/split"
	"github.com/llmrun/llmrun/hetero/devices"
	"github.com/llmrun/llmrun/hetero/profiles"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/tiering"
)

// A driver takes memory when it is opened. So a budget is compared first with what earlier runs have
// measured and stored, or, without those, with bounds.

const (
	// unknownDriver is the room, beside the program, for opening a driver that has not been measured.
	// PoCL takes up to 400 MiB when it compiles its first kernels.
	unknownDriver = 512 << 20
	// unknownWeights bounds the bytes that a device's layout takes for a byte of weights, and
	// unknownKV those for a byte of keys and values: growing buffers are copied.
	unknownWeights, unknownKV = 2, 4
	// unknownBuffers bounds what a device takes besides both.
	unknownBuffers = 64 << 20
)

// deviceNeed is what a model takes of the machine's memory with a device, without the driver's memory.
type deviceNeed struct {
	// Placements are layers on a GPU, by what placementKey names.
	Placements map[string]exec.Placement `json:"placements,omitempty"`
	// Split is the host's part of a split.
	Split *tiering.Shape `json:"split,omitempty"`
}

// unopenedDriver tells where the memory of a device comes from before its driver is open.
type unopenedDriver int

const (
	driverOpens    unopenedDriver = iota // the driver is opened and tells
	driverRecalled                       // from earlier runs
	driverBounded                        // bounds
)

// errNotRecalled reports that earlier runs have not measured what a decision needs.
var errNotRecalled = errors.New("what the model takes with the device is not known before its driver is open")

// decide is admit for options that may name a device. It opens the device's driver only if the budget
// has room for what that takes.
func (o *Options) decide(ctx context.Context, f *modelfile.Files, perTensor *exec.W8A8, r *trace.Recorder) (admission, error) {
	if err := errors.Join(o.checkContext(f), o.checkNested(f)); err != nil {
		return admission{}, err
	}
	if a, refused := o.refuseUnopened(ctx, f, perTensor); refused != nil {
		return a, refused
	}
	if err := o.prepareSplit(ctx, f, perTensor, r); err != nil {
		return admission{}, err
	}
	a, err := o.admit(ctx, f, perTensor)
	if o.prepared != nil && (err == nil || errors.Is(err, ErrBudget)) {
		o.driver.need.Split = &a.least
	}
	o.rememberNeed()
	return a, err
}

// refuseUnopened refuses a budget that is too small for the model or for opening the device's driver.
// It does not open the driver.
func (o *Options) refuseUnopened(ctx context.Context, f *modelfile.Files, perTensor *exec.W8A8) (a admission, refused error) {
	if !o.loadsDriver() {
		return a, nil
	}
	spec, err := f.Spec()
	if err != nil {
		return a, err
	}
	o.driver.key = o.driverKey(f, spec, perTensor)
	stored, _ := profiles.Load(o.Cache.Dir)
	recalled := stored.Need(o.driver.key, &o.driver.need)
	if o.limit() == 0 || driverMeasured(o.driver.key) || tiering.ReadResident(tiering.SystemRoot()).Now == 0 { // the system does not tell
		return a, nil
	}
	defer func() { o.driver.unopened, o.driver.memory = driverOpens, driverMemory{} }()
	measured := false
	if o.driver.memory, measured = recallDriver(stored, o.driver.key); measured && recalled {
		o.driver.unopened = driverRecalled
		if a, err := o.admit(ctx, f, perTensor); errors.Is(err, ErrBudget) {
			return a, err
		}
	}
	if !measured {
		if o.Memory.RAM <= 0 { // the system's memory is no promise
			return a, nil
		}
		o.driver.memory = driverMemory{unknownDriver, unknownDriver}
	}
	o.driver.unopened = driverBounded
	in, err := o.planInputs(ctx, f, perTensor, 0, o.limit())
	least := in.need.Code + in.need.Opening + in.need.DriverPeak
	if err != nil || o.limit() >= least {
		return a, err
	}
	a, refused = o.admit(ctx, f, perTensor)
	if a.placed = nil; !measured && errors.Is(refused, ErrBudget) {
		refused = fmt.Errorf("%w; these are bounds: the driver of %s has not been measured with this model, which a budget of %s or none allows", refused, o.Device.Name, tiering.AtLeastText(least))
	}
	return a, refused
}

// rememberNeed stores what the model takes with the device, for refuseUnopened.
func (o *Options) rememberNeed() {
	if o.driver.key == "" || o.Cache.Dir == "" || o.driver.need.Placements == nil && o.driver.need.Split == nil {
		return
	}
	stored, _ := profiles.Load(o.Cache.Dir)
	if stored.SetNeed(o.driver.key, &o.driver.need) {
		stored.SaveOrReport(o.Cache.Dir, o.Notify)
	}
}

// loadsDriver reports whether the options name a device whose driver this program can load.
func (o *Options) loadsDriver() bool {
	if _, onGPU := o.onGPU(); onGPU {
		return devices.All.Loads(deviceGPU)
	}
	name, isSplit := o.split()
	return isSplit && (&split.Options{Device: name}).HasDriver() && devices.All.Loads(name)
}

// driverKey names what the memory of the driver, and of the model on the device, depends on, but for the
// context and the number of layers on a GPU.
func (o *Options) driverKey(f *modelfile.Files, spec *arch.Spec, perTensor *exec.W8A8) string {
	return fmt.Sprintf("%s, quota %g, memory %d, %d threads, %v, %v, W8A8 %t, chunks of %d tokens: %s, %d bytes", o.Device.Name,
		o.Device.Quota, o.Device.Memory, o.threads(), o.kvFormat(f), o.selection(), perTensor != nil, o.deviceChunk(spec), f.Path, f.TensorBytes())
}

// placementKey names what the placement of a model's layers on a GPU depends on.
func (o *Options) placementKey(model *exec.Options) string {
	return fmt.Sprintf("%d layers, chunks of %d tokens, context %d", o.Device.GPULayers, model.Chunk, model.Context)
}

// unopenedPlacement returns where the layers of a model are, before the GPU's driver is open. The bound
// leaves all layers on the CPU and counts them on the GPU too.
func (o *Options) unopenedPlacement(f *modelfile.Files, spec *arch.Spec, model *exec.Options) (exec.Placement, error) {
	if o.driver.unopened == driverRecalled {
		p, known := o.driver.need.Placements[o.placementKey(model)]
		if !known {
			return p, errNotRecalled
		}
		return p, nil
	}
	return exec.Placement{
		Device: o.Device.Name, First: len(spec.Layers), Layers: len(spec.Layers), Context: spec.Context, SharesMemory: true,
		HostBuffers: unknownWeights*f.TensorBytes() + unknownBuffers, HostUpload: f.TensorBytes(),
		HostKVPerToken: unknownKV * spec.KVShape(o.kvFormat(f)).TokenBytes(),
	}, nil
}

// boundOutcome bounds the memory of a split whose measurements are not known.
func boundOutcome(f *modelfile.Files) *split.Outcome {
	return &split.Outcome{HostBytes: unknownWeights*f.TensorBytes() + unknownBuffers, Upload: f.TensorBytes()}
}
