package llmrun

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/gpupass"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/split"
	"github.com/llmrun/llmrun/hetero/devices"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/tiering"
)

// What may keep a GPU from being used, to be found with errors.Is.
var (
	// ErrNotBuilt: this program cannot load drivers.
	ErrNotBuilt = opencl.ErrNotBuilt
	// ErrNoDriver: there is no driver of a GPU.
	ErrNoDriver = opencl.ErrNoDriver
)

const (
	deviceCPU = "cpu"
	deviceGPU = "gpu"
	// splitPrefix stands before the device that has a part in the processor's work.
	splitPrefix = deviceCPU + "+"
)

// onGPU reports whether passes are computed on a GPU, and on which: part of its
// name, "" for the first.
func (o *Options) onGPU() (name string, ok bool) {
	if o.Device.Name == deviceGPU {
		return "", true
	}
	return strings.CutPrefix(o.Device.Name, deviceGPU+":")
}

// split returns the device that has a part in the products of passes, if one has.
func (o *Options) split() (name string, ok bool) {
	name, ok = strings.CutPrefix(o.Device.Name, splitPrefix)
	return name, ok && name != ""
}

// usesDevice reports whether all or some of the weights are in a device's memory: then
// nothing is imported, moved to flash or given back.
func (o *Options) usesDevice() bool {
	_, onGPU := o.onGPU()
	_, isSplit := o.split()
	return onGPU || isSplit
}

// unsupportedOption is an option that something does not go with.
type unsupportedOption struct {
	set    bool
	reason string
}

// validateDevice refuses what a device does not do.
func (o *Options) validateDevice() error {
	_, onGPU := o.onGPU()
	_, isSplit := o.split()
	if !onGPU && !isSplit && o.Device.Name != "" && o.Device.Name != deviceCPU {
		return fmt.Errorf("%w: Device is %q; it must be cpu, gpu, gpu: and part of a device's name, or cpu+gpu, cpu+npu or cpu+ and a device's name", ErrOptions, o.Device.Name)
	}
	if o.Device.Quota < 0 || o.Device.Quota > 1 || o.Device.Quota != 0 && !isSplit {
		return fmt.Errorf("%w: DeviceShare is %g; it is a part of 1 and belongs to a Device such as cpu+gpu", ErrOptions, o.Device.Quota)
	}
	if o.Device.Memory < 0 || o.Device.Memory != 0 && !onGPU && !isSplit {
		return fmt.Errorf("%w: DeviceMemory is %d; it is a number of bytes and belongs to a Device such as gpu or cpu+npu", ErrOptions, o.Device.Memory)
	}
	if o.Device.GPULayers < 0 || o.Device.GPULayers != 0 && !onGPU {
		return fmt.Errorf("%w: GPULayers is %d; it is a number of layers and belongs to a GPU as Device", ErrOptions, o.Device.GPULayers)
	}
	refused := []unsupportedOption{
		{o.Memory.KVRAM != 0, "KVRAM"},
		{o.Memory.Pin != "" && o.Memory.Pin != "auto", "Pin: weights are copied to its memory"},
		{o.Memory.WatchPressure, "WatchPressure"},
		{o.Exact, "Exact: devices round what they multiply (the commands logits and perplexity need --rounded with them)"},
	}
	who := "a GPU"
	switch {
	case onGPU:
		refused = append(refused, unsupportedOption{o.Memory.KV != "" && o.Memory.KV != "k8v8", "KV: keys and values are k8v8"},
			unsupportedOption{!o.selection().Exact(), "KVSelect"}, unsupportedOption{o.Lab.W8A8 != nil, "W8A8"})
	case isSplit:
		who = "a model divided between devices"
	default:
		return nil
	}
	for _, c := range refused {
		if c.set {
			return fmt.Errorf("%w: %s does not have %s", ErrOptions, who, c.reason)
		}
	}
	return nil
}

// processor returns what computes in place of the CPU's kernels, nil for nothing.
func (o *Options) processor(r *trace.Recorder) exec.Processor {
	name, ok := o.onGPU()
	if !ok {
		return nil
	}
	return gpupass.Processor{Device: name, Layers: o.Device.GPULayers, Memory: o.Device.Memory, Trace: r}
}

// loadModel loads a model where the options want it computed. r may be nil.
func (o *Options) loadModel(ctx context.Context, f *modelfile.Files, model exec.Options, r *trace.Recorder) (*exec.Model, error) {
	name, isSplit := o.split()
	if !isSplit {
		m, err := exec.Load(ctx, f, model)
		if errors.Is(err, tiering.ErrBudget) && o.usesDevice() {
			err = fmt.Errorf("%w; with Device %s weights are not read from flash while they are used", err, o.Device.Name)
		}
		return m, err
	}
	m, err := split.Load(ctx, f, model, split.Options{Device: name, Quota: o.Device.Quota, Memory: o.Device.Memory, Trace: r, Dir: o.Cache.Dir, Progress: o.Device.Progress, Report: o.Notify})
	if errors.Is(err, devices.ErrNotBuilt) {
		err = notBuilt{err}
	}
	return m, err
}

// notBuilt is ErrNotBuilt in other words.
type notBuilt struct{ error }

func (notBuilt) Is(target error) bool { return target == ErrNotBuilt }
func (n notBuilt) Unwrap() error      { return n.error }

// SplitMatmul says how the matrices of one kind are split between the processor
// and another device, and how long steps took whose first product they are: one
// matrix, or several that multiply the same vectors.
type SplitMatmul struct {
	Name  string `json:"name"`
	Count int    `json:"count"` // matrices
	Rows  int    `json:"rows"`
	Cols  int    `json:"cols"`
	Type  string `json:"type"`
	// Of one token, and of at least Least together: the part of the rows that the
	// other device has, and the steps.
	DecodeFraction  float64    `json:"one_share"`
	PrefillFraction float64    `json:"many_share"`
	PrefillTokens   int        `json:"least"`
	Decode          SplitSteps `json:"one"`
	Prefill         SplitSteps `json:"many"`
}

// SplitSteps are steps of passes. Predicted and Took are sums; Waited is how much
// of that was waiting for the other device after the own rows were done.
type SplitSteps struct {
	Steps     int           `json:"steps"`
	Tokens    int           `json:"tokens"`
	Predicted time.Duration `json:"predicted_ns"`
	Took      time.Duration `json:"took_ns"`
	Waited    time.Duration `json:"waited_ns"`
}

// SplitMatmuls returns how matmuls are split with a Device such as cpu+gpu, and how
// long they took so far; nil without one.
func (e *Engine) SplitMatmuls() (list []SplitMatmul) {
	for _, p := range e.model.SplitStats() {
		one, many := p.Fractions()
		list = append(list, SplitMatmul{
			Name: p.Name, Count: p.Count, Rows: p.Rows, Cols: p.Cols, Type: p.Type.String(),
			DecodeFraction: one, PrefillFraction: many, PrefillTokens: p.Split.MinBatch,
			Decode: SplitSteps(p.Single), Prefill: SplitSteps(p.Batch),
		})
	}
	return list
}
