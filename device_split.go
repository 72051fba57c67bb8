package llmrun

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/split"
	"github.com/llmrun/llmrun/hetero/devices"
	"github.com/llmrun/llmrun/hetero/rates"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/tiering"
)

// prepareSplit decides how matmuls are split if the options name a device that shares them, for
// admit and loadModel. It measures what no earlier run has measured. r may be nil.
func (o *Options) prepareSplit(ctx context.Context, f *modelfile.Files, perTensor *exec.W8A8, r *trace.Recorder) error {
	name, isSplit := o.split()
	if !isSplit {
		return nil
	}
	spec, err := f.Spec()
	if err != nil {
		return err
	}
	model := exec.Options{Threads: o.Threads, Chunk: o.deviceChunk(spec), KV: o.kvFormat(f), Select: o.selection(), W8A8: perTensor}
	options := split.Options{Device: name, Quota: o.Device.Quota, Memory: o.Device.Memory, Trace: r, Dir: o.Cache.Dir, Progress: o.Device.Progress, Report: o.Notify}
	code := codeBytes() // before a driver's code is resident
	prepare := func() error {
		model.Budget = tiering.New(0) // what measurements take is in the plan
		if options.Room, err = o.measuringRoom(f, code); err != nil {
			return err
		}
		o.prepared, err = split.Prepare(ctx, f, model, options)
		return err
	}
	if options.HasDriver() {
		o.driver.memory, err = o.measureDriver(o.driver.key, prepare)
	} else {
		err = prepare()
	}
	if errors.Is(err, devices.ErrNotBuilt) {
		err = notBuilt{err}
	}
	if errors.Is(err, devices.ErrUnknown) {
		err = fmt.Errorf("%w: Device.Name: %w", ErrOptions, err)
	}
	return err
}

// measuringRoom returns a function that returns how much of the budget measurements of devices may
// take, before weights are loaded: what the program and the driver, which is opened afterwards, leave.
// It returns nil without a budget.
func (o *Options) measuringRoom(f *modelfile.Files, code int64) (func() int64, error) {
	limit := o.limit()
	if limit == 0 {
		return nil, nil
	}
	spec, err := f.Spec()
	if err != nil {
		return nil, err
	}
	headers, opening, err := o.headerHeap(f, spec)
	if err != nil {
		return nil, err
	}
	before := tiering.BeginGrowth()
	return func() int64 {
		devices.ReleaseDriverMemory()
		driver, _ := before.End()
		return limit - code - o.programHeapBytes() - max(headers, opening) - driver
	}, nil
}

// measuring returns what measurements have taken of a budget in which there is little room for them, if
// it is not in the peak of a driver.
func (o *Options) measuring() int64 {
	if o.prepared == nil || o.driver.memory.peak > 0 {
		return 0
	}
	return o.prepared.Measuring
}

// outcomes returns the ways in which matmuls may be split: one without a split.
func (o *Options) outcomes() []split.Outcome {
	if o.prepared == nil {
		return []split.Outcome{{}}
	}
	return o.prepared.Outcomes()
}

// otherOutcomes returns the shapes of all outcomes but the first.
func (o *Options) otherOutcomes(f *modelfile.Files, perTensor *exec.W8A8) (shapes []tiering.Shape, err error) {
	for _, outcome := range o.outcomes()[1:] {
		shape, _, err := o.measureShape(f, perTensor, nil, &outcome)
		if err != nil {
			return nil, err
		}
		shapes = append(shapes, shape)
	}
	return shapes, nil
}

// measureShape returns the shape of the host's part of a model, with the memory that the device takes
// of the host's, and the kind of matmul that makes most operations; no kind for a shape that was recalled.
func (o *Options) measureShape(f *modelfile.Files, perTensor *exec.W8A8, placed *gpuPlacement, outcome *split.Outcome) (tiering.Shape, rates.Matmul, error) {
	switch {
	case placed != nil:
	case o.driver.unopened == driverBounded:
		outcome = boundOutcome(f)
	case o.driver.unopened == driverRecalled && o.driver.need.Split == nil:
		return tiering.Shape{}, rates.Matmul{}, errNotRecalled
	case o.driver.unopened == driverRecalled:
		return *o.driver.need.Split, rates.Matmul{}, nil
	}
	if outcome.Whole != nil {
		placed = &gpuPlacement{Placement: *outcome.Whole}
	}
	options := o.shapeOptions(f, perTensor)
	options.Offloaded = placed.layers()
	if outcome.RowsOf != nil {
		options.RowsOf = outcome.RowsOf()
	}
	shape, matmul, err := exec.MeasureShape(f, options)
	if err == nil {
		err = errors.Join(o.addDrafts(&shape, f), o.addReward(&shape))
	}
	placed.addTo(&shape)
	shape.OtherPinned += outcome.HostBytes
	shape.Upload = max(shape.Upload, outcome.Upload)
	return shape, matmul, err
}

// planOutcome plans the rows that an outcome leaves on the CPU. The plan is the engine's if the
// outcome has a device.
func (e *Engine) planOutcome(f *modelfile.Files, perTensor *exec.W8A8, opts *Options, outcome *split.Outcome) (*tiering.Plan, error) {
	shape, _, err := opts.measureShape(f, perTensor, nil, outcome)
	if err != nil {
		return nil, err
	}
	need := e.mem.need
	if outcome.Whole != nil {
		need.Context, need.ContextMax = min(need.Context, outcome.Whole.Context), min(need.ContextMax, outcome.Whole.Context)
	}
	plan, err := makePlan(shape, need, tiering.Rates{})
	if err == nil && (outcome.RowsOf != nil || outcome.Whole != nil) {
		e.mem.shape, e.mem.current = shape, plan
	}
	return plan, err
}
