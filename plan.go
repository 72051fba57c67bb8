package llmrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/tiering"
)

// AvailableMemory returns how much memory in bytes this process can reasonably use: what the
// system and its container have available, less a margin. It returns 0 if the system does not
// report it.
func AvailableMemory() int64 { return readAvailable() }

// readAvailable reads the available memory. Tests replace it.
var readAvailable = tiering.Available

// ParseMemory parses an amount of memory: "1.5GiB", "800MB", a number of bytes, or a
// percentage of AvailableMemory such as "50%".
func ParseMemory(text string) (int64, error) {
	n, err := tiering.ParseSize(text, AvailableMemory())
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return n, nil
}

// PlanMemory plans how a model would use the budget opts.Memory.RAM, without loading the
// model. If the model cannot run within the budget, the error is a [*MinimumError].
// PlanMemory predicts speeds from measurements of this machine, which take a second. It
// caches them in opts.Cache.Dir; measure repeats them.
func PlanMemory(ctx context.Context, path string, opts Options, measure bool) (_ *MemoryPlan, err error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts.countProgramHeap()
	f, err := openMerged(opts.fsys(), path, opts.Adapters, opts.Quantize)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var perTensor *exec.W8A8
	if opts.Lab.W8A8 != nil {
		if perTensor, err = opts.Lab.W8A8.open(f, opts.fsys()); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, perTensor.Calibration.Close()) }()
	}
	// Refuse an insufficient budget before measuring the machine.
	shape, need, err := opts.planInputs(f, perTensor, opts.limit())
	if err != nil {
		return nil, err
	}
	plan, err := makePlan(shape, need, tiering.Rates{})
	if err != nil {
		return nil, err
	}
	plan, measured, err := opts.predict(ctx, f, shape, need, plan, measure)
	if err != nil {
		return nil, err
	}
	p := &MemoryPlan{Model: path, KV: opts.kvFormat(f).String(), Threads: opts.threads(), Plan: planOf(plan), Measured: measured}
	p.describe(&shape)
	return p, nil
}

// predict repeats the plan with the measured rates of the machine, for reads of the planned
// size. remeasure ignores cached measurements.
func (o *Options) predict(ctx context.Context, f *modelfile.Files, s tiering.Shape, n tiering.Need, plan *tiering.Plan, remeasure bool) (*tiering.Plan, Rates, error) {
	m := o.rateMeasurer()
	m.remeasure, m.weights = remeasure, s.TokenBytes()
	measured, err := m.rates(ctx, f, plan.Piece)
	if err != nil {
		return nil, measured, err
	}
	plan, err = makePlan(s, n, measured.forPlan())
	return plan, measured, err
}

// describe lists the sections of the model.
func (p *MemoryPlan) describe(s *tiering.Shape) {
	for l, section := range s.Layers {
		p.Sections = append(p.Sections, PlannedSection{section.Name, section.Bytes, p.Pinned[l]})
	}
	p.Sections = append(p.Sections, PlannedSection{s.Head.Name, s.Head.Bytes, p.HeadPinned})
	if s.Embedding > 0 {
		p.Sections = append(p.Sections, PlannedSection{Name: "embedding", Bytes: s.Embedding})
	}
	p.Experts = s.ExpertLayers * s.Experts
	p.WeightBytes = int64(p.Experts) * s.ExpertBytes
	for _, section := range p.Sections {
		p.WeightBytes += section.Bytes
	}
}

// threads returns the number of worker threads.
func (o *Options) threads() int { return cmp.Or(o.Threads, threadpool.DefaultThreads()) }

// Memory of the program itself, measured with vocabularies of 6 000 to 100 000 tokens: a
// vocabulary takes 64 to 100 bytes per token. The heap items sum up to Go's memory limit,
// which makes the garbage collector run before garbage exceeds it.
const (
	codeBytes      = 8 << 20  // resident code pages
	heapBytes      = 12 << 20 // Go's runtime and what does not depend on the model
	heapPerThread  = 1 << 20
	heapPerVocable = 128
)

// rateMeasurer returns a rateMeasurer with these options.
func (o *Options) rateMeasurer() rateMeasurer {
	m := rateMeasurer{fsys: o.fsys(), dir: o.Cache.Dir, threads: o.threads(), memory: smaller(o.limit(), AvailableMemory())}
	if o.Lab.Disk != (DiskSpeed{}) {
		m.dir = "" // do not cache the measurements of a throttled disk
	}
	return m
}

// planInputs returns the inputs of a plan.
func (o *Options) planInputs(f *modelfile.Files, perTensor *exec.W8A8, budget int64) (_ tiering.Shape, _ tiering.Need, err error) {
	spec, err := f.Spec()
	if err != nil {
		return tiering.Shape{}, tiering.Need{}, err
	}
	format := o.kvFormat(f)
	shape, err := exec.MeasureShape(f, exec.ShapeOptions{Threads: o.threads(), KV: format, Select: o.selection(), KVCold: o.kvDir() != "", Exact: o.Exact, W8A8: perTensor})
	if err != nil {
		return shape, tiering.Need{}, err
	}
	need := tiering.Need{
		Budget: budget, Context: min(o.Context, spec.Context), ContextMax: spec.Context, Chunk: o.Memory.Chunk,
		KVCold: o.kvDir() != "", KVHot: o.Memory.KVRAM,
		Code: codeBytes, Heap: heapBytes + heapPerThread*int64(o.threads()) + heapPerVocable*int64(spec.Vocab) + o.program,
	}
	if format != kv.Smallest {
		need.KVBytesLow = spec.KVShape(kv.Smallest).TokenBytes()
	}
	return shape, need, nil
}
