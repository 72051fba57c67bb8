package llmrun

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/gpupass"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/split"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/internal/trace"
)

// Sentinel errors of devices; test for them with errors.Is.
var (
	// ErrNotBuilt reports that this program was built without support for device drivers.
	ErrNotBuilt = opencl.ErrNotBuilt
	// ErrNoDriver reports that the system has no GPU driver.
	ErrNoDriver = opencl.ErrNoDriver
)

const (
	deviceCPU = "cpu"
	deviceGPU = "gpu"
	// splitPrefix precedes the name of the device that shares matmuls with the CPU.
	splitPrefix = deviceCPU + "+"
)

// onGPU reports whether a GPU computes layers, and returns the part of its name that selects
// it, "" for the first GPU.
func (o *Options) onGPU() (name string, ok bool) {
	if o.Device.Name == deviceGPU {
		return "", true
	}
	return strings.CutPrefix(o.Device.Name, deviceGPU+":")
}

// split returns the name of the device that shares matmuls with the CPU, if one is set.
func (o *Options) split() (name string, ok bool) {
	name, ok = strings.CutPrefix(o.Device.Name, splitPrefix)
	return name, ok && name != ""
}

// usesDevice reports whether a device holds some of the weights. The engine then does not
// import the model.
func (o *Options) usesDevice() bool {
	_, onGPU := o.onGPU()
	_, isSplit := o.split()
	return onGPU || isSplit
}

// unsupportedOption is an option that a device does not support.
type unsupportedOption struct {
	set    bool
	reason string
}

// validateDevice returns an ErrOptions if a device option is out of range, or if the device
// does not support another option.
func (o *Options) validateDevice() error {
	_, onGPU := o.onGPU()
	_, isSplit := o.split()
	if !onGPU && !isSplit && o.Device.Name != "" && o.Device.Name != deviceCPU {
		return fmt.Errorf("%w: Device.Name is %q; it must be cpu, gpu, gpu: and a part of a device's name, cpu+gpu, cpu+npu, or cpu+ and a device's name", ErrOptions, o.Device.Name)
	}
	if o.Device.Quota < 0 || o.Device.Quota > 1 || o.Device.Quota != 0 && !isSplit {
		return fmt.Errorf("%w: Device.Quota is %g; it must be between 0 and 1, and needs a Device.Name such as cpu+gpu", ErrOptions, o.Device.Quota)
	}
	if o.Device.Memory < 0 || o.Device.Memory != 0 && !onGPU && !isSplit {
		return fmt.Errorf("%w: Device.Memory is %d; it must be a number of bytes, and needs a Device.Name such as gpu or cpu+npu", ErrOptions, o.Device.Memory)
	}
	if o.Device.GPULayers < 0 || o.Device.GPULayers != 0 && !onGPU {
		return fmt.Errorf("%w: Device.GPULayers is %d; it must be a number of layers, and needs the Device.Name gpu", ErrOptions, o.Device.GPULayers)
	}
	if onGPU || isSplit {
		return o.validateWithDevice(onGPU)
	}
	return nil
}

// validateWithDevice returns an ErrOptions for the first option that a GPU, or a split, does
// not support.
func (o *Options) validateWithDevice(onGPU bool) error {
	unsupported := []unsupportedOption{
		{o.Memory.KVRAM != 0, "Memory.KVRAM"},
		{o.Memory.Pin != "" && o.Memory.Pin != "auto", "Memory.Pin: the weights are copied to the device's memory"},
		{o.Memory.WatchPressure, "Memory.WatchPressure"},
		{o.Exact, "Exact: devices quantize activations"},
		{o.Drafts.named(), fmt.Sprintf("Drafts.Drafter %s: a device's arithmetic may depend on the number of tokens of a pass", o.Drafts.Drafter)},
	}
	if onGPU {
		unsupported = append(unsupported,
			unsupportedOption{o.Memory.KV != "" && o.Memory.KV != "k8v8", "a Memory.KV other than k8v8"},
			unsupportedOption{!o.selection().Exact(), "Memory.KVSelect"},
			unsupportedOption{o.Lab.W8A8 != nil, "Lab.W8A8"},
			unsupportedOption{o.AdaptersBeside, "AdaptersBeside"},
			unsupportedOption{len(o.AdapterNames()) > 0, "Adapters with names"})
	}
	for _, u := range unsupported {
		if u.set {
			return fmt.Errorf("%w: Device.Name %s does not support %s", ErrOptions, o.Device.Name, u.reason)
		}
	}
	return nil
}

// accelerator returns the GPU that replaces the CPU's kernels, or nil.
func (o *Options) accelerator(r *trace.Recorder) exec.Accelerator {
	name, ok := o.onGPU()
	if !ok {
		return nil
	}
	return gpupass.Accelerator{Context: o.driver.gpu, Device: name, Layers: o.Device.GPULayers, Memory: o.Device.Memory, Trace: r}
}

// loadModel loads a model on the devices that the options select. makePlan plans the rows that stay
// on the CPU if another device computes some; see prepareSplit.
func (o *Options) loadModel(ctx context.Context, f *modelfile.Files, model exec.Options, makePlan split.PlanFunc) (*exec.Model, error) {
	if o.prepared == nil {
		return exec.Load(ctx, f, model)
	}
	return o.prepared.Load(ctx, model, makePlan)
}

// notBuilt wraps the error of another driver so that it matches ErrNotBuilt.
type notBuilt struct{ error }

func (notBuilt) Is(target error) bool { return target == ErrNotBuilt }
func (n notBuilt) Unwrap() error      { return n.error }

// SplitMatmul describes how the matrices of one kind are split between the CPU and another
// device, and how long the steps took that begin with them. A step is one matrix, or several
// that multiply the same input.
type SplitMatmul struct {
	Name  string `json:"name"`
	Count int    `json:"count"` // number of matrices
	Rows  int    `json:"rows"`
	Cols  int    `json:"cols"`
	Type  string `json:"type"`
	// The fractions are the part of the rows that the other device computes: during decode,
	// and for chunks of at least PrefillTokens tokens.
	DecodeFraction  float64    `json:"one_share"`
	PrefillFraction float64    `json:"many_share"`
	PrefillTokens   int        `json:"least"`
	Decode          SplitSteps `json:"one"`
	Prefill         SplitSteps `json:"many"`
}

// SplitSteps sums up steps. Predicted is the time that the split was planned with, Took is
// the measured time, and Waited is the part of Took in which the CPU waited for the other
// device.
type SplitSteps struct {
	Steps     int           `json:"steps"`
	Tokens    int           `json:"tokens"`
	Predicted time.Duration `json:"predicted_ns"`
	Took      time.Duration `json:"took_ns"`
	Waited    time.Duration `json:"waited_ns"`
}

// SplitMatmuls returns how matmuls are split if Device.Name is a split such as cpu+gpu, and
// how long they took so far. It returns nil without a split.
func (e *Engine) SplitMatmuls() (list []SplitMatmul) {
	for _, p := range e.model.SplitStats() {
		decode, prefill := p.Fractions()
		list = append(list, SplitMatmul{
			Name: p.Name, Count: p.Count, Rows: p.Rows, Cols: p.Cols, Type: p.Type.String(),
			DecodeFraction: decode, PrefillFraction: prefill, PrefillTokens: p.Split.MinBatch,
			Decode: SplitSteps(p.Single), Prefill: SplitSteps(p.Batch),
		})
	}
	return list
}
