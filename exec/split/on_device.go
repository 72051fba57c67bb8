package split

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/gpupass"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/devices"
	"github.com/llmrun/llmrun/hetero/profiles"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/tiering"
)

// LoadOnDevice loads a model that the device computes completely. It returns
// arch.ErrUnsupported if the device cannot.
func LoadOnDevice(ctx context.Context, f *modelfile.Files, model exec.Options, o Options) (*exec.Model, error) {
	var err error
	if o.Device, err = devices.All.Resolve(o.Device); err != nil {
		return nil, err
	}
	if err := o.setAccelerator(&model); err != nil {
		return nil, err
	}
	model.Plan = nil // it is for all layers on the CPU
	return exec.Load(ctx, f, model)
}

// setAccelerator makes the device compute whole passes.
func (o *Options) setAccelerator(model *exec.Options) error {
	place, ok := strings.CutPrefix(o.Device, "opencl-")
	if !ok {
		return fmt.Errorf("%w: %s computes matmuls only", arch.ErrUnsupported, o.Device)
	}
	model.Accelerator = gpupass.Accelerator{Device: place, Layers: gpupass.All, Memory: o.Memory, Trace: o.Trace}
	return nil
}

// allowsWholePass reports whether the options allow the device to compute whole
// passes.
func (o *Options) allowsWholePass(model *exec.Options) bool {
	return o.Quota == 0 && !o.Alone && !model.Exact && model.W8A8 == nil && model.KV == kv.K8V8 && model.KVSpill == nil && model.Select.Exact()
}

// loadOnDevice loads the model on the device, which is predicted to be faster than
// any split. It returns nil without an error if the device cannot compute the
// model, or the trial shows that the CPU is faster.
func (t *trial) loadOnDevice(ctx context.Context, matmuls []weights.Matmul) (m *exec.Model, err error) {
	passes := t.passes(matmuls)
	passes.Matmuls = "all on the device: " + passes.Matmuls
	result := t.known(passes)
	if result == nil {
		if err := t.checkPlacement(); err != nil {
			return nil, ignoreUnsupported(err)
		}
		t.report("trial of %s: timing passes on the CPU alone, then on the device", t.o.Device)
		m, result, err = t.compare(ctx, passes, timing{prompts: true, tokens: true, chunk: t.model.Chunk}, t.loadPlaced)
		if err != nil || result == nil {
			return m, ignoreUnsupported(err)
		}
	}
	planned, alone := answerTime(result.Planned), answerTime(result.Alone)
	if !paysOff(planned, alone) {
		if m != nil {
			m.Close()
		}
		t.report("%s is not used for whole passes: a prompt and %d tokens took %v on it and %v on the CPU", t.o.Device, answerTokens, planned.Round(time.Microsecond), alone.Round(time.Microsecond))
		return nil, nil
	}
	if m == nil {
		if m, err = t.loadPlaced(ctx); err != nil {
			return nil, ignoreUnsupported(err)
		}
	}
	t.report("%s computes whole passes, which is predicted to be faster than any split", t.o.Device)
	return m, nil
}

// loadPlaced loads the model on the device. A plan leaves its embedding on flash, of which only rows are
// looked up, and counts what the device takes of the host's memory.
func (t *trial) loadPlaced(ctx context.Context) (*exec.Model, error) {
	model := t.model
	if t.makePlan == nil {
		return LoadOnDevice(ctx, t.files, model, *t.o)
	}
	if err := t.o.setAccelerator(&model); err != nil {
		return nil, err
	}
	place, err := exec.PlaceLayers(t.files, model)
	if err != nil {
		return nil, err
	}
	if model.Plan, err = t.makePlan(Outcome{Whole: &place}); err != nil {
		return nil, err
	}
	return exec.Load(ctx, t.files, model)
}

// checkPlacement checks that the device can compute the model, before weights are
// read.
func (t *trial) checkPlacement() error {
	model := t.model
	if err := t.o.setAccelerator(&model); err != nil {
		return err
	}
	_, err := exec.PlaceLayers(t.files, model)
	return err
}

// rehearseOnDevice makes the driver compile the kernels of whole passes.
func (t *trial) rehearseOnDevice(ctx context.Context) error {
	model := t.model
	if err := t.o.setAccelerator(&model); err != nil {
		return ignoreUnsupported(err)
	}
	model.Budget = tiering.New(0)
	return ignoreUnsupported(exec.RehearseLayers(ctx, t.files, model))
}

// ignoreUnsupported returns nil if the device does not support the model or has no
// memory for it, because Load then splits the matmuls. It returns other errors.
func ignoreUnsupported(err error) error {
	if errors.Is(err, arch.ErrUnsupported) || hetero.IsOutOfMemory(err) {
		return nil
	}
	return err
}

// answerTime is the time of a prefill chunk and an answer.
func answerTime(took profiles.PassTimes) time.Duration { return took.Prompt + answerTokens*took.Token }
