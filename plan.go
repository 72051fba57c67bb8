package llmrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/ended"
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

// PlanOptions configure PlanMemory.
type PlanOptions struct {
	// Prompt and Answer are the tokens of the conversation whose time is predicted. 0 means a
	// prompt of 512 tokens, or half of the context if that is less, and no answer after its
	// first token. If Prompt is given, the plan is for it as with Memory.PromptTokens, and its context
	// has room for the answer too. A prompt that the context cannot hold is refused with ErrContextFull.
	Prompt, Answer int
	// IDs says that the prompt is one of token ids, as [Session.GenerateIDs] gets it. Otherwise it may be a text, whose
	// conversion the budget must have room for.
	IDs bool
	// Overflow is [GenerateOptions].Overflow of the conversation. With OverflowSlide the context needs
	// no room for all of Prompt, of which the plan counts the tokens that a slide keeps.
	Overflow Overflow
	// Measure measures the machine again.
	Measure bool
	// MeasureRefused also measures the machine if the model does not run, to predict its speed with
	// the changes of the advice.
	MeasureRefused bool
	// RatesDir is the directory that caches the measurements; "" means Options.Cache.Dir.
	RatesDir string
}

func (o *PlanOptions) validate() error {
	if o.Prompt < 0 || o.Answer < 0 {
		return fmt.Errorf("%w: the prompt is %d tokens and the answer %d; neither may be negative", ErrOptions, o.Prompt, o.Answer)
	}
	return o.Overflow.validate()
}

// PlanMemory plans how a model would use the budget opts.Memory.RAM, without loading the
// model. It accepts the models and options that [Open] accepts. If the model cannot run, the
// error is the one that Open returns, such as a [*MinimumError], and the plan says what is
// missing. PlanMemory predicts speeds from measurements of this machine, which take a second;
// it caches them. With a Device.Name it gives no such advice, and predicts a speed only at the start of a
// conversation, for a split whose passes a run has timed and whose weights fit.
func PlanMemory(ctx context.Context, path string, opts Options, how PlanOptions) (_ *MemoryPlan, err error) {
	defer ended.Say(ctx, &err)
	if err := errors.Join(opts.validate(), how.validate()); err != nil {
		return nil, err
	}
	if err := opts.checkCacheDirs(); err != nil {
		return nil, err
	}
	if err := opts.readKey(); err != nil {
		return nil, err
	}
	opts.shareSteps()
	opts.expect(&how)
	opts.countProgramHeap()
	opts.opening, opts.plans = planOpening(), true
	f, err := opts.openChanged(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), opts.driver.close(), opts.closeBeside()) }()
	if err := opts.keepAdapters(f); err != nil {
		return nil, err
	}
	var perTensor *exec.W8A8
	if opts.Lab.W8A8 != nil {
		if perTensor, err = opts.Lab.W8A8.open(ctx, f, opts.fsys()); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, perTensor.Calibration.Close()) }()
	}
	p := &MemoryPlan{Model: path, KV: opts.kvFormat(f).String(), Threads: opts.threads(), Advice: []PlanAdvice{}, Guesses: []PlannedGuesses{}, Together: []PlannedTogether{}}
	advice := adviser{opts: &opts, f: f, perTensor: perTensor, plan: p}
	// Refuse an insufficient budget before measuring the machine.
	a, err := opts.decide(ctx, f, perTensor, nil)
	if err == nil {
		a, err = opts.planImport(ctx, f, perTensor, a)
	}
	if err == nil {
		err = errors.Join(opts.planDraftModel(f), opts.planReward())
	}
	if err == nil {
		if p.Forgotten, err = opts.holdsPrompt(&a, &how); err != nil {
			p.refuse(&a, err)
			return p, err
		}
	}
	if opts.usesDevice() && (err == nil || errors.Is(err, ErrBudget)) {
		opts.planBeside(f, p, &a, err)
		return p, err
	}
	if errors.Is(err, ErrContextFull) {
		p.refuse(&a, err)
		return p, err
	}
	if errors.Is(err, ErrBudget) {
		p.refuse(&a, err)
		advice.measurer, advice.measures = opts.planMeasurer(&how), how.MeasureRefused
		advice.measurer.memory = AvailableMemory() // the budget of the advice is larger
		return p, errors.Join(advice.advise(ctx), err)
	}
	if err != nil {
		return nil, err
	}
	opts.noteStreaming(f, &a)
	measurer := opts.planMeasurer(&how)
	a.need.Talk = tiering.Talk{Prompt: how.Prompt - p.Forgotten, Answer: how.Answer}
	plan, measured, err := opts.predict(ctx, f, &a, measurer)
	if err != nil {
		return nil, err
	}
	p.forecast(plan.Predicted)
	p.Plan, p.Measured, p.Runs, p.Minimum = planOf(plan), measured, true, a.minimum()
	p.describe(&a.shape)
	if p.Experts > 0 && opts.mayDraft(true) {
		p.GuessesNotPredicted = "each guess may need other experts"
	}
	if p.Guesses, err = opts.predictGuesses(ctx, f, &a.shape, plan, &measurer); err != nil {
		return nil, err
	}
	spec, err := f.Spec()
	if err != nil {
		return nil, err
	}
	if p.Together, err = predictTogether(&a.shape, a.need, plan.KVHot, measured.forPlan(), spec.Vocab); err != nil {
		return nil, err
	}
	measurer.remeasure = false
	advice.measurer, advice.measures, advice.measured = measurer, true, measured
	return p, advice.advise(ctx)
}

// planBeside is the rest of PlanMemory for a model whose layers or rows a device computes.
func (o *Options) planBeside(f *modelfile.Files, p *MemoryPlan, a *admission, refused error) {
	p.GPU = a.placement()
	if refused != nil {
		p.refuse(a, refused)
		if a.layersThatFit > 0 {
			p.Advice = append(p.Advice, PlanAdvice{Change: fmt.Sprintf("--gpu-layers %d", a.layersThatFit)})
		}
		return
	}
	o.noteStreaming(f, a)
	p.Plan, p.Runs, p.Minimum = planOf(a.plan), true, a.minimum()
	p.describe(&a.shape)
	if o.prepared == nil || !a.plan.Resident() {
		return
	}
	if took, chunk, ok := o.prepared.PassTimes(); ok {
		p.PredictedPrefill, p.PredictedDecode = float64(chunk)/took.Prompt.Seconds(), 1/took.Token.Seconds()
		p.Decode.Start = p.PredictedDecode
	}
}

// planMeasurer returns a rateMeasurer for a plan. admit has chosen how flash is read.
func (o *Options) planMeasurer(how *PlanOptions) rateMeasurer {
	m := o.rateMeasurer()
	m.remeasure = how.Measure
	if how.RatesDir != "" {
		m.dir = how.RatesDir
	}
	return m
}

// refuse records why a model cannot run.
func (p *MemoryPlan) refuse(a *admission, err error) {
	p.Refused, p.Minimum = err.Error(), a.minimum()
	p.Budget, p.Context = a.need.Budget, a.need.Context
	var refused *MinimumError
	if errors.As(err, &refused) {
		p.By, p.Context, p.fits = refused.By, refused.Context, refused.ContextFits
	} else if a.plan != nil {
		p.By, p.Context = planOf(a.plan).By, a.plan.Context
	}
	p.Pinned = make([]int64, len(a.shape.Layers))
	p.describe(&a.shape)
}

// predict repeats the plan with the measured rates of the machine, for reads of the planned
// size.
func (o *Options) predict(ctx context.Context, f *modelfile.Files, a *admission, m rateMeasurer) (*tiering.Plan, Rates, error) {
	s, plan := &a.shape, a.plan
	m.of(a)
	measured, err := m.rates(ctx, f, plan.Piece)
	if err == nil {
		err = m.attention(ctx, f, o.shapeOptions(f, nil), &measured)
	}
	if err == nil && s.Convert > 0 && !plan.Resident() {
		err = m.conversion(ctx, f, o.shapeOptions(f, nil), s, len(o.Adapters), &measured)
	}
	if err == nil && s.Selection.Fraction > 0 && s.KVUnit > 0 {
		err = m.rounds(f.Source.Files()[0], s.KVUnit, &measured)
	}
	if err != nil {
		return nil, measured, err
	}
	m.expertReuse(f.Path, s, &measured)
	plan, err = makePlan(*s, a.need, measured.forPlan())
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
	if s.Table > 0 {
		p.Sections = append(p.Sections, PlannedSection{Name: "per-layer embeddings", Bytes: s.Table})
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
	codeLeast      = 13 << 20 // llmrun itself
	codeStart      = 18 << 20 // llmrun itself when it starts, with what is used only then
	codeGrowth     = 1 << 20  // code that runs only later
	codeStep       = 4 << 20  // so that the plans of two processes agree
	heapBytes      = 8 << 20  // Go's runtime and what does not depend on the model: 4 MiB for prompts and logits
	heapPerThread  = 1 << 20
	heapPerVocable = 128
)

// codeBytes returns the memory of the program's code: what is resident of the executable and
// its libraries when the first engine is opened, and what will be later. What llmrun itself has used until then is
// given back, and comes back where it is used again.
var codeBytes = sync.OnceValue(func() int64 {
	code := tiering.ReadCode(tiering.SystemRoot())
	reserve := codeMemory(code.Resident())
	if reserve == codeLeast {
		code.Release()
	}
	return reserve
})

// codeMemory returns the memory to reserve for code of which some bytes are resident. Those of
// llmrun are 12 to 15 MiB when it opens a model, depending on what the page cache holds; less than 3 when they were given back, and up to 13
// later. A program of another size reserves what it has.
func codeMemory(resident int64) int64 {
	if resident <= codeStart {
		return codeLeast
	}
	return (resident + codeGrowth + codeStep - 1) / codeStep * codeStep
}

// rateMeasurer returns a rateMeasurer with these options.
func (o *Options) rateMeasurer() rateMeasurer {
	return rateMeasurer{
		fsys: o.fsys(), dir: o.Cache.Dir, disk: o.Lab.Disk, flashReads: o.flashReads(),
		threads: o.threads(), memory: smaller(o.limit(), AvailableMemory()), budget: o.opening.ledger(), retry: retryRates,
	}
}

// shapeOptions returns the options that decide about a model's memory.
func (o *Options) shapeOptions(f *modelfile.Files, perTensor *exec.W8A8) exec.ShapeOptions {
	return exec.ShapeOptions{Threads: o.threads(), KV: o.kvFormat(f), Select: o.selection(), KVCold: o.kvDir() != "", Exact: o.Exact, Nested: o.nested, W8A8: perTensor}
}

// planInputs returns the inputs of a plan. tokens is the length of a prompt that the plan must hold with the room on flash.
func (o *Options) planInputs(ctx context.Context, f *modelfile.Files, perTensor *exec.W8A8, tokens int, budget int64) (in planInputs, err error) {
	spec, err := f.Spec()
	if err != nil {
		return in, err
	}
	o.encoder = spec.Encoder.Bidirectional
	format := o.kvFormat(f)
	placed, err := o.placeOnGPU(ctx, f)
	if err != nil {
		return in, err
	}
	outcome := o.outcomes()[0]
	if in.shape, in.matmul, err = o.measureShape(f, perTensor, placed, &outcome); err != nil {
		return in, err
	}
	in.shape.OtherPinned += describerBytes(f)
	headers, opening, err := o.headerHeap(f, spec)
	if err != nil {
		return in, err
	}
	need := tiering.Need{
		KVPrompt: tokens, Budget: budget, Context: min(o.Context, spec.Context), ContextMax: spec.Context, Chunk: o.Memory.Chunk,
		KVCold: o.kvDir() != "", KVHot: o.Memory.KVRAM,
		Code: codeBytes() + o.mappedBytes(), Heap: o.programHeapBytes() + headers + f.AdapterBytes() + o.sealedHeap(),
		Opening: o.programHeapBytes() + max(opening, headers+o.measuring()), Driver: o.driver.memory.held, DriverPeak: o.driver.memory.peak,
	}
	o.room.limitNeed(&need, 0)
	if format != kv.Smallest {
		need.KVBytesLow = spec.KVShape(kv.Smallest).TokenBytes()
	}
	if placed != nil {
		need.ContextMax = placed.Context
		need.Context = min(need.Context, need.ContextMax)
		need.KVBytesLow = 0 // the GPU has one format
	}
	if o.usesDevice() {
		need.Chunk, need.FixedChunk = o.deviceChunk(spec), true
	}
	need.WholeContext = spec.Encoder.Bidirectional
	in.need, in.placed = need, placed
	return in, nil
}
