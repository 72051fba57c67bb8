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

// AvailableMemory returns how many bytes this process may sensibly take: what the
// system, and the container that it runs in, have to give, less a margin. It is 0
// where the system does not tell.
func AvailableMemory() int64 { return tiering.Available() }

// ParseMemory reads an amount of memory: "1.5GiB", "800MB", a number of bytes, or
// "50%" of AvailableMemory.
func ParseMemory(text string) (int64, error) {
	n, err := tiering.ParseSize(text, tiering.Available())
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return n, nil
}

// PlanMemory divides the memory that opts.RAM stands for among the parts of a
// model, without loading it. The error is a [*MinimumError] where the model
// cannot run in it. Speeds are predicted from what this machine reaches, which
// takes a second to measure; opts.CacheDir, if set, keeps what was measured.
// measure says to do it again.
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
	// A refusal comes at once, without measuring anything.
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

// predict makes a plan again with what the machine was measured to reach, for
// reads as the plan has them. again measures what is known already.
func (o *Options) predict(ctx context.Context, f *modelfile.Files, s tiering.Shape, n tiering.Need, plan *tiering.Plan, again bool) (*tiering.Plan, Rates, error) {
	m := o.rateMeasurer()
	m.remeasure, m.weights = again, s.TokenBytes()
	measured, err := m.rates(ctx, f, plan.Piece)
	if err != nil {
		return nil, measured, err
	}
	plan, err = makePlan(s, n, measured.forPlan())
	return plan, measured, err
}

// describe lists the model's parts.
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

// threads returns how many threads will compute.
func (o *Options) threads() int { return cmp.Or(o.Threads, threadpool.DefaultThreads()) }

// Of the program's own memory, measured with vocabularies of 6 000 to 100 000
// tokens: a vocabulary takes 64 to 100 bytes a token. Go's memory limit, which is the
// sum of these, has garbage collected before it takes as much again.
const (
	codeBytes      = 8 << 20  // pages of the program that are in use
	heapBytes      = 12 << 20 // Go's runtime and all that does not depend on the model
	heapPerThread  = 1 << 20
	heapPerVocable = 128
)

// rateMeasurer returns who measures the machine.
func (o *Options) rateMeasurer() rateMeasurer {
	m := rateMeasurer{fsys: o.fsys(), dir: o.Cache.Dir, threads: o.threads(), memory: smaller(o.limit(), AvailableMemory())}
	if o.Lab.Disk != (DiskSpeed{}) {
		m.dir = "" // what is measured so holds for nothing else
	}
	return m
}

// planInputs returns what a plan for a model is made from.
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
