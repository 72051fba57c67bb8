package split

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero/devices"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/tiering"
)

// Options say with which device a model is divided.
type Options struct {
	// Device is a name of a device of this machine; "gpu" or "npu" is the first of
	// its kind.
	Device string
	// Quota is how much of a product's time the device may be busy, for others who
	// need it; 0 means all of it. The device is never alone then.
	Quota float64
	// Alone gives the device all that it takes, to compare with.
	Alone bool
	// Memory is how many bytes of the device's memory may be taken; 0 means what its
	// driver says.
	Memory int64
	Trace  *trace.Recorder // of what the device and the processor did when; may be nil
	Dir    string          // where measurements and verdicts are kept; "" = nowhere
	// Progress is told how many products have been measured, of at most so many, and
	// Notice what is tried and what is not as one may expect; both may be nil.
	Progress func(done, total int)
	Report   func(text string)
}

// maxStaticChunk is for how many tokens devices that are static get their graphs, or
// for fewer: few prompts are a multiple of many, and what fills a chunk up is
// computed for nothing.
const maxStaticChunk = 256

// Load loads a model whose products are divided between this package's kernels and
// a device; or all of it on the device, where that is predicted to be faster, and
// the device can. What is planned is tried the first time: whole passes show whether
// prompts and single tokens gain by it, and what does not stays here. For that the model
// is loaded two or three times, one after the other. It is refused with
// exec.ErrUnsupported where the device multiplies no weights of its types. Of the
// model's options Processor and Divide are set here, and Threads, if nobody has said how
// many: a half of the cores that is the device is not the processor's, unless it turns
// out that all of them are faster.
func Load(ctx context.Context, f *modelfile.Files, model exec.Options, o Options) (*exec.Model, error) {
	var err error
	if o.Device, err = devices.All.Resolve(o.Device); err != nil {
		return nil, err
	}
	threads := model.Threads
	if threads == 0 {
		model.Threads = devices.HostThreads(o.Device)
	}
	if model.Budget == nil {
		model.Budget = tiering.New(0)
	}
	if model.Chunk <= 0 {
		model.Chunk = exec.DefaultChunk
	}
	if inOrder, err := f.InOrder(); err != nil {
		return nil, err
	} else if inOrder != f.Source {
		return nil, fmt.Errorf("%w: %s: columns are in an order of their own (GPTQ), which products on devices do not follow", arch.ErrUnsupported, f.Path)
	}
	products, err := weights.Products(f)
	if err != nil {
		return nil, err
	}
	plan, err := makePlan(ctx, f, products, &model, &o)
	if err != nil {
		return nil, err
	}
	t := &trial{files: f, model: model, threads: threads, o: &o, plan: plan}
	if o.allowsWholePass(&model) && plan.wholePassFaster(products) {
		if m, err := t.loadOnDevice(ctx, products); m != nil || err != nil {
			return m, err
		}
	}
	return t.load(ctx, products)
}

// makePlan measures what is not known and decides. What was measured is kept also
// where that is interrupted.
func makePlan(ctx context.Context, f *modelfile.Files, products []weights.Product, model *exec.Options, o *Options) (_ *planner, err error) {
	products = slices.DeleteFunc(slices.Clone(products), func(p weights.Product) bool { return !p.Divisible() })
	l, err := openBench(products, model, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	p := &planner{bench: l, chunk: model.Chunk, quota: o.Quota, alone: o.Alone, splits: map[weights.Product]weights.Share{}, hostOnly: map[weights.Product]weights.Share{}}
	if p.static() {
		p.chunk = min(p.chunk, maxStaticChunk)
	}
	if err := p.probeTypes(products); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Device, err)
	}
	measured := 0
	l.profiler.Before = func() error {
		l.dirty = true
		if measured++; o.Progress != nil {
			o.Progress(measured, max(measured, p.measured))
		}
		return ctx.Err()
	}
	err = p.planAll(products)
	l.save(o.Dir, o.Report)
	if err != nil {
		return nil, err
	}
	buffers, err := exec.AttachedBytes(f, shapeOf(model), p.chunk)
	if err != nil {
		return nil, err
	}
	if err := p.fitMemory(products, buffers); err != nil {
		return nil, err
	}
	if n := p.unplaced(products); n > 0 && o.Report != nil {
		o.Report(fmt.Sprintf("%s has no memory for its rows of %d matrices, which stay on the processor", o.Device, n))
	}
	return p, nil
}

// shapeOf returns the options that a model's buffers depend on.
func shapeOf(model *exec.Options) exec.ShapeOptions {
	return exec.ShapeOptions{
		Threads: cmp.Or(model.Threads, threadpool.DefaultThreads()), KV: model.KV, KVPage: model.KVPage, Select: model.Select, Exact: model.Exact, W8A8: model.W8A8,
	}
}
