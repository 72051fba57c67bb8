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
)

// LoadOnDevice loads a model all of which the device computes. It is refused with
// exec.ErrUnsupported where that cannot be.
func LoadOnDevice(ctx context.Context, f *modelfile.Files, model exec.Options, o Options) (*exec.Model, error) {
	var err error
	if o.Device, err = devices.All.Resolve(o.Device); err != nil {
		return nil, err
	}
	if err := o.setProcessor(&model); err != nil {
		return nil, err
	}
	return exec.Load(ctx, f, model)
}

// setProcessor sets the device as what computes all of a pass.
func (o *Options) setProcessor(model *exec.Options) error {
	place, ok := strings.CutPrefix(o.Device, "opencl-")
	if !ok {
		return fmt.Errorf("%w: %s computes products only", arch.ErrUnsupported, o.Device)
	}
	model.Processor = gpupass.Processor{Device: place, Layers: gpupass.All, Memory: o.Memory, Trace: o.Trace}
	return nil
}

// allowsWholePass reports whether nothing keeps the device from computing all of a pass,
// as far as options go.
func (o *Options) allowsWholePass(model *exec.Options) bool {
	return o.Quota == 0 && !o.Alone && !model.Exact && model.W8A8 == nil && model.KV == kv.K8V8 && model.KVSpill == nil && model.Select.Exact()
}

// loadOnDevice loads the model on the device, as is predicted to be faster than any
// division; or nothing, without an error, where the device cannot compute it or passes
// were seen to be slower than on the processor.
func (t *trial) loadOnDevice(ctx context.Context, products []weights.Product) (m *exec.Model, err error) {
	passes := t.passes(products)
	passes.Matmuls = "all on the device: " + passes.Matmuls
	result := t.known(passes)
	whole := func(ctx context.Context) (*exec.Model, error) { return LoadOnDevice(ctx, t.files, t.model, *t.o) }
	if result == nil {
		if err := t.checkPlacement(); err != nil {
			return nil, ignoreUnsupported(err)
		}
		t.report("passes on %s are tried before they are trusted: they are timed on the processor alone, then there", t.o.Device)
		m, result, err = t.compare(ctx, passes, timing{prompts: true, tokens: true, chunk: t.model.Chunk}, whole)
		if err != nil || result == nil {
			return m, ignoreUnsupported(err)
		}
	}
	planned, alone := answerTime(result.Planned), answerTime(result.Alone)
	if !paysOff(planned, alone) {
		if m != nil {
			m.Close()
		}
		t.report("%s does not compute all of a pass: a prompt and %d tokens took %v there, and %v on the processor", t.o.Device, answerTokens, planned.Round(time.Microsecond), alone.Round(time.Microsecond))
		return nil, nil
	}
	if m == nil {
		if m, err = whole(ctx); err != nil {
			return nil, ignoreUnsupported(err)
		}
	}
	t.report("%s computes all of a pass: that is predicted to be faster than any division", t.o.Device)
	return m, nil
}

// checkPlacement asks whether the device can compute the model, before weights are read.
func (t *trial) checkPlacement() error {
	model := t.model
	if err := t.o.setProcessor(&model); err != nil {
		return err
	}
	_, err := exec.PlaceLayers(t.files, model)
	return err
}

// ignoreUnsupported returns an error, but none where a device only cannot compute a model
// or has no memory for it: then products are divided.
func ignoreUnsupported(err error) error {
	if errors.Is(err, arch.ErrUnsupported) || hetero.IsOutOfMemory(err) {
		return nil
	}
	return err
}

// answerTime is how long a chunk of a prompt takes with an answer behind it.
func answerTime(took profiles.PassTimes) time.Duration { return took.Prompt + answerTokens*took.Token }
