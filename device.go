package llmrun

import (
	"fmt"
	"strings"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/gpu"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/internal/trace"
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
)

// onGPU reports whether passes are computed on a GPU, and on which: part of its
// name, "" for the first.
func (o *Options) onGPU() (name string, ok bool) {
	if o.Device == deviceGPU {
		return "", true
	}
	return strings.CutPrefix(o.Device, deviceGPU+":")
}

// validateDevice refuses what a GPU does not do.
func (o *Options) validateDevice() error {
	_, onGPU := o.onGPU()
	if !onGPU {
		if o.Device != "" && o.Device != deviceCPU {
			return fmt.Errorf("%w: Device is %q; it must be cpu, gpu, or gpu: and part of a device's name", ErrOptions, o.Device)
		}
		return nil
	}
	for _, c := range []struct {
		set  bool
		what string
	}{
		{o.KV != "" && o.KV != "k8v8", "KV: keys and values are k8v8"},
		{!o.selection().Exact(), "KVSelect"},
		{o.KVRAM != 0, "KVRAM: keys and values are all in its memory"},
		{o.Pin != "" && o.Pin != "auto", "Pin: weights are copied to its memory"},
		{o.WatchPressure, "WatchPressure"},
		{o.Measure, "Measure"},
		{o.W8A8 != nil, "W8A8"},
	} {
		if c.set {
			return fmt.Errorf("%w: a GPU does not have %s", ErrOptions, c.what)
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
	return gpu.Processor{Device: name, Trace: r}
}
