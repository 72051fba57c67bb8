package split

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero/devices"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/tiering"
)

// Options are the device of a split and its limits.
type Options struct {
	// Device is the name of a device; "gpu" or "npu" is the first of its kind.
	Device string
	// Quota is the fraction of a matmul's time that the device may be busy; 0 means
	// no limit. Other programs can use the device for the rest of the time. With a
	// quota, the device never computes a matmul alone.
	Quota float64
	// Alone gives the device every matmul that it supports, for comparisons.
	Alone bool
	// Memory limits the device memory in bytes; 0 means the driver's limit.
	Memory int64
	Trace  *trace.Recorder // of the device's and the CPU's work; may be nil
	Dir    string          // for measurements and trial results; "": none
	// Progress is called with the number of matmuls measured so far and an upper
	// bound. Report is called with decisions that the user should know. Both may be
	// nil.
	Progress func(done, total int)
	// Room returns how much memory measurements may take beside what the process holds already. If
	// that is little, they take as little as possible, and are less exact: caches may hold the weights.
	// nil: there is no limit.
	Room   func() int64
	Report func(text string)
}

// maxStaticChunk bounds the tokens of a static device's graphs. The device computes
// whole graphs, so the padding of a prompt's last chunk is wasted work.
const maxStaticChunk = 256

// Load loads a model whose matmuls are split between the CPU and a device, or the
// whole model on the device if that is predicted to be faster and the device
// supports it. Load tries a new plan first: it times prompts and single tokens as
// planned and on the CPU alone, and leaves those that do not get faster on the CPU.
// For a trial it loads the model two or three times, one after the other. It
// returns arch.ErrUnsupported if the device supports none of the weight types. Load
// sets Accelerator and Split in the model's options. It sets Threads if that is 0:
// if the device is half of the cores, the CPU keeps the other half, unless the
// trial shows that all cores together are faster.
func Load(ctx context.Context, f *modelfile.Files, model exec.Options, o Options) (*exec.Model, error) {
	if model.Budget == nil {
		model.Budget = tiering.New(0)
	}
	p, err := Prepare(ctx, f, model, o)
	if err != nil {
		return nil, err
	}
	return p.Load(ctx, model, nil)
}

// Prepared is how the matmuls of a model are split, before weights are loaded.
type Prepared struct {
	trial   trial
	matmuls []weights.Matmul
	// Measuring is what measurements take of the budget if there is little room, whether or not some were
	// made: what a model needs does not depend on what has been measured before. With a driver it is what
	// they took, because the driver's peak holds it.
	Measuring int64
}

// Prepare decides how matmuls are split, and makes the measurements that are not stored yet in
// model.Budget. It reads no weights.
func Prepare(ctx context.Context, f *modelfile.Files, model exec.Options, o Options) (*Prepared, error) {
	var err error
	if o.Device, err = devices.All.Resolve(o.Device); err != nil {
		return nil, err
	}
	threads := model.Threads
	if threads == 0 {
		model.Threads = devices.HostThreads(o.Device)
	}
	if model.Chunk <= 0 {
		model.Chunk = exec.DefaultChunk
	}
	if inOrder, err := f.InInputOrder(); err != nil {
		return nil, err
	} else if inOrder != f.Source {
		return nil, fmt.Errorf("%w: %s: its GPTQ columns are permuted, which devices do not support", arch.ErrUnsupported, f.Path)
	}
	matmuls, err := weights.Matmuls(f)
	if err != nil {
		return nil, err
	}
	plan, err := makePlan(ctx, f, matmuls, &model, &o)
	if err != nil {
		return nil, err
	}
	t := trial{files: f, matmuls: matmuls, model: model, threads: threads, o: &o, plan: plan}
	measuring := plan.bench.took()
	if !o.HasDriver() {
		if measuring, err = t.measuring(); err != nil {
			return nil, err
		}
	} else {
		err = t.rehearse(matmuls)
		if err == nil && o.allowsWholePass(&model) && plan.wholePassFaster(matmuls) {
			err = t.rehearseOnDevice(ctx)
		}
	}
	return &Prepared{t, matmuls, measuring}, err
}

// HasDriver reports whether the device needs a driver: the engine's own devices do not.
func (o *Options) HasDriver() bool {
	return o.Device != "cpu" && !strings.HasPrefix(o.Device, "cpu-") && !strings.HasPrefix(o.Device, "cpu/")
}

// Load loads the model with the same options as in Prepare, except for those of memory: its budget,
// and plans of the rows that stay on the CPU, from makePlan; nil keeps all of them in memory.
func (p *Prepared) Load(ctx context.Context, model exec.Options, makePlan PlanFunc) (*exec.Model, error) {
	t := p.trial
	model.Threads, model.Chunk = t.model.Threads, t.model.Chunk
	t.model, t.makePlan = model, makePlan
	if t.o.allowsWholePass(&model) && t.plan.wholePassFaster(p.matmuls) {
		m, err := t.loadOnDevice(ctx, p.matmuls)
		if err != nil && makePlan != nil && errors.Is(err, tiering.ErrBudget) {
			t.report("%s computes no whole passes: %v", t.o.Device, err)
		} else if m != nil || err != nil {
			return m, err
		}
	}
	return t.load(ctx, p.matmuls)
}

// makePlan plans the splits and makes the measurements that the profile lacks. It
// saves them even if it is interrupted.
func makePlan(ctx context.Context, f *modelfile.Files, matmuls []weights.Matmul, model *exec.Options, o *Options) (_ *planner, err error) {
	matmuls = slices.DeleteFunc(slices.Clone(matmuls), func(p weights.Matmul) bool { return !p.Splittable() })
	l, err := openBench(matmuls, model, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	p := &planner{bench: l, chunk: model.Chunk, quota: o.Quota, alone: o.Alone, splits: map[weights.Matmul]weights.RowSplit{}, hostOnly: map[weights.Matmul]weights.RowSplit{}}
	if p.static() {
		p.chunk = min(p.chunk, maxStaticChunk)
	}
	if err := p.probeTypes(matmuls); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Device, err)
	}
	measured := 0
	l.profiler.Before = func() error {
		l.dirty = true
		if measured++; o.Progress != nil {
			o.Progress(measured, max(measured, p.measured))
		}
		return errors.Join(ctx.Err(), l.allocate())
	}
	err = p.planAll(matmuls)
	l.save(o.Dir, o.Report)
	if err != nil {
		return nil, err
	}
	buffers, err := exec.AttachedBytes(f, shapeOf(model), p.chunk)
	if err != nil {
		return nil, err
	}
	if err := p.fitMemory(matmuls, buffers); err != nil {
		return nil, err
	}
	if n := p.unplaced(matmuls); n > 0 && o.Report != nil {
		o.Report(fmt.Sprintf("%s has no memory for its rows of %d matrices, which stay on the CPU", o.Device, n))
	}
	return p, nil
}

// shapeOf returns the options that determine a model's buffers.
func shapeOf(model *exec.Options) exec.ShapeOptions {
	return exec.ShapeOptions{
		Threads: cmp.Or(model.Threads, threadpool.DefaultThreads()), KV: model.KV, KVPage: model.KVPage, Select: model.Select, Exact: model.Exact, W8A8: model.W8A8,
	}
}
