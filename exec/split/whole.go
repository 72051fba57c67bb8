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

// LoadWhole loads a model all of which the device computes. It is refused with
// exec.ErrUnsupported where that cannot be.
func LoadWhole(ctx context.Context, f *modelfile.Files, model exec.Options, o Options) (*exec.Model, error) {
	var err error
	if o.Device, err = devices.All.Resolve(o.Device); err != nil {
		return nil, err
	}
	if err := o.asProcessor(&model); err != nil {
		return nil, err
	}
	return exec.Load(ctx, f, model)
}

// asProcessor sets the device as what computes all of a pass.
func (o *Options) asProcessor(model *exec.Options) error {
	place, ok := strings.CutPrefix(o.Device, "opencl-")
	if !ok {
		return fmt.Errorf("%w: %s computes products only", arch.ErrUnsupported, o.Device)
	}
	model.Processor = gpupass.Processor{Device: place, Layers: gpupass.All, Memory: o.Memory, Trace: o.Trace}
	return nil
}

// mayBeWhole reports whether nothing keeps the device from computing all of a pass,
// as far as options go.
func (o *Options) mayBeWhole(model *exec.Options) bool {
	return o.Limit == 0 && !o.Alone && !model.Exact && model.W8A8 == nil && model.KV == kv.K8V8 && model.KVSpill == nil && model.Select.Exact()
}

// loadWhole loads the model on the device, as is predicted to be faster than any
// division; or nothing, without an error, where the device cannot compute it or passes
// were seen to be slower than on the processor.
func (t *trial) loadWhole(ctx context.Context, products []weights.Product) (m *exec.Model, err error) {
	passes := t.passes(products)
	passes.Matmuls = "all on the device: " + passes.Matmuls
	result := t.known(passes)
	whole := func(ctx context.Context) (*exec.Model, error) { return LoadWhole(ctx, t.files, t.model, *t.o) }
	if result == nil {
		if err := t.place(); err != nil {
			return nil, unlessRefused(err)
		}
		t.notice("passes on %s are tried before they are trusted: they are timed on the processor alone, then there", t.o.Device)
		m, result, err = t.compare(ctx, passes, timing{prompts: true, tokens: true, chunk: t.model.Chunk}, whole)
		if err != nil || result == nil {
			return m, unlessRefused(err)
		}
	}
	planned, alone := answered(result.Planned), answered(result.Alone)
	if !worthIt(planned, alone) {
		if m != nil {
			m.Close()
		}
		t.notice("%s does not compute all of a pass: a prompt and %d tokens took %v there, and %v on the processor", t.o.Device, answer, planned.Round(time.Microsecond), alone.Round(time.Microsecond))
		return nil, nil
	}
	if m == nil {
		if m, err = whole(ctx); err != nil {
			return nil, unlessRefused(err)
		}
	}
	t.notice("%s computes all of a pass: that is predicted to be faster than any division", t.o.Device)
	return m, nil
}

// place asks whether the device can compute the model, before weights are read.
func (t *trial) place() error {
	model := t.model
	if err := t.o.asProcessor(&model); err != nil {
		return err
	}
	_, err := exec.PlaceLayers(t.files, model)
	return err
}

// unlessRefused returns an error, but none where a device only cannot compute a model
// or has no memory for it: then products are divided.
func unlessRefused(err error) error {
	if errors.Is(err, arch.ErrUnsupported) || hetero.IsOutOfMemory(err) {
		return nil
	}
	return err
}

// answered is how long a chunk of a prompt takes with an answer behind it.
func answered(took profiles.PassTimes) time.Duration { return took.Prompt + answer*took.Token }
