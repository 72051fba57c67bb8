package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/split"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero/devices"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/deviceplan"
	"github.com/llmrun/llmrun/kv"
)

// SplitOptions say with which device passes are divided, and what is timed.
type SplitOptions struct {
	Path    string
	FS      fs.FS  // where Path is looked up; nil = the operating system
	Device  string // see split.Options
	Quota   float64
	Threads int // 0 = the fast cores
	Chunk   int
	Prefill []int // lengths of prompts
	Decode  int   // tokens of a generation
	Repeats int
	Dir     string // where measurements of devices are kept; "" = nowhere
	// Loading and Running tell of progress, and Notify of a trial of the division, its
	// outcome, and kept measurements that are not used; all may be nil.
	Loading, Running func(done, total int64)
	Notify           func(text string)
}

// SplitReport compares whole passes of a model on the processor, on a device and
// divided between them.
type SplitReport struct {
	Model   string        `json:"model"`
	Machine bench.Machine `json:"machine"`
	Device  string        `json:"device"`
	Alone   string        `json:"device_alone"`    // how the device computes alone
	Opening float64       `json:"opening_seconds"` // of the divided model, with measuring devices and trying the division, the first time
	Tests   []SplitTest   `json:"tests"`
	// Whole says that the device has all of the pass in the divided model as well,
	// because that was predicted to be faster than any division. No product is divided
	// then.
	Whole   bool       `json:"whole_pass_on_device"`
	Matmuls []SplitRow `json:"products"`
}

// SplitRow is how matrices of one kind are divided, and what steps took that begin
// with them, of one token and of at least Least.
type SplitRow struct {
	Name         string      `json:"name"`
	Count        int         `json:"count"`
	Rows         int         `json:"rows"`
	Cols         int         `json:"cols"`
	Type         string      `json:"type"`
	OneFraction  float64     `json:"one_share"` // part of the rows that the device has
	ManyFraction float64     `json:"many_share"`
	MinTokens    int         `json:"least"` // 0: only single tokens are multiplied
	One          *SplitSteps `json:"one,omitempty"`
	Many         *SplitSteps `json:"many,omitempty"`
}

// SplitSteps is what a step took, on average.
type SplitSteps struct {
	Steps     int             `json:"steps"`
	Predicted deviceplan.Time `json:"predicted_us,omitempty"` // 0: nobody did
	Took      deviceplan.Time `json:"took_us"`
	Waited    deviceplan.Time `json:"waited_us"` // of that, for the device
}

// SplitTest is one thing that was timed in three ways.
type SplitTest struct {
	Name   string       `json:"name"`   // pp and the length of a prompt, or tg and how much was generated
	CPU    bench.Spread `json:"cpu_ms"` // of a prompt, or of one token of a generation
	Device bench.Spread `json:"device_ms"`
	Split  bench.Spread `json:"divided_ms"`
	// OfBetter is the divided time in parts of the better of the two others: the
	// median of the ratios of runs that followed each other.
	OfBetter float64 `json:"of_better"`
}

// The ways to compute a pass.
const (
	onCPU = iota
	onDevice
	onSplit
	passWays
)

// CompareSplit times passes. All runs take turns.
func CompareSplit(ctx context.Context, o SplitOptions) (_ *SplitReport, err error) {
	r := &SplitReport{Model: o.Path, Machine: bench.ThisMachine(), Device: o.Device}
	if o.Threads == 0 { // the processor alone has what it has beside the device
		o.Threads = devices.HostThreads(o.Device)
	}
	tests := passTests(o.Prefill, o.Decode, []int{0})
	var benches [passWays]*bench.Runner
	for way := range benches {
		model, err := r.load(ctx, &o, way)
		if err != nil {
			return nil, err
		}
		defer model.Close()
		if err := bench.AllFit(tests, model); err != nil { // before the model is loaded again
			return nil, err
		}
		benches[way] = bench.NewPassRunner(model)
		defer benches[way].Close()
	}
	for i, t := range tests {
		result, err := timeInTurns(ctx, &benches, &t, o.Repeats)
		if err != nil {
			return nil, err
		}
		r.Tests = append(r.Tests, result)
		if o.Running != nil {
			o.Running(int64(i+1), int64(len(tests)))
		}
	}
	r.list(benches[onSplit].Model.SplitStats())
	return r, nil
}

// list takes over how products are divided: nil of a model that has no division.
func (r *SplitReport) list(products []weights.SplitMatmul) {
	r.Whole = products == nil
	r.Matmuls = []SplitRow{} // scripts get a list in any case
	for _, p := range products {
		one, many := p.Fractions()
		r.Matmuls = append(r.Matmuls, SplitRow{
			Name: p.Name, Count: p.Count, Rows: p.Rows, Cols: p.Cols, Type: p.Type.String(),
			OneFraction: one, ManyFraction: many, MinTokens: p.Split.MinBatch,
			One: averageStep(p.Single), Many: averageStep(p.Batch),
		})
	}
}

// averageStep returns nil where no step began with a product.
func averageStep(s weights.SplitSteps) *SplitSteps {
	n := time.Duration(s.Steps)
	if n == 0 {
		return nil
	}
	return &SplitSteps{s.Steps, deviceplan.Microseconds(s.Predicted / n), deviceplan.Microseconds(s.Took / n), deviceplan.Microseconds(s.Waited / n)}
}

// load opens the model in one of the ways.
func (r *SplitReport) load(ctx context.Context, o *SplitOptions, way int) (model *exec.Model, err error) {
	files, err := modelfile.Open(bench.FSOf(o.FS), o.Path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	options := exec.Options{Threads: o.Threads, Chunk: o.Chunk, KV: kv.K8V8, Progress: o.Loading}
	divided := split.Options{Device: o.Device, Quota: o.Quota, Dir: o.Dir, Report: o.Notify}
	switch way {
	case onDevice:
		return r.loadAlone(ctx, files, options, divided)
	case onSplit:
		begin := time.Now()
		defer func() { r.Opening = time.Since(begin).Seconds() }()
		return split.Load(ctx, files, options, divided)
	}
	return exec.Load(ctx, files, options)
}

// loadAlone opens the model on the device: whole passes where it can compute them,
// and otherwise all products, with the rest on the processor.
func (r *SplitReport) loadAlone(ctx context.Context, files *modelfile.Files, model exec.Options, o split.Options) (*exec.Model, error) {
	r.Alone = "the whole pass"
	m, err := split.LoadOnDevice(ctx, files, model, o)
	if errors.Is(err, arch.ErrUnsupported) {
		r.Alone, o.Alone = "all products that it takes", true
		return split.Load(ctx, files, model, o)
	}
	return m, err
}

// timeInTurns runs a test in each way, again and again.
func timeInTurns(ctx context.Context, benches *[passWays]*bench.Runner, t *bench.Test, repeats int) (d SplitTest, err error) {
	d.Name = t.Name
	var took [passWays][]float64
	var ratios []float64
	for n := range repeats + 1 { // the first is to warm up
		var last [passWays]float64
		for way, b := range benches {
			if _, err := b.Sequence(ctx, 0); err != nil {
				return d, err
			}
			run, err := b.Run(ctx, t, false)
			if err != nil {
				return d, err
			}
			last[way] = 1e3 * run.Seconds() / t.Units()
		}
		if n == 0 {
			continue
		}
		for way, ms := range last {
			took[way] = append(took[way], ms)
		}
		ratios = append(ratios, last[onSplit]/min(last[onCPU], last[onDevice]))
	}
	for way, to := range []*bench.Spread{&d.CPU, &d.Device, &d.Split} {
		*to = bench.SpreadOf(took[way])
	}
	d.OfBetter = bench.Median(ratios)
	return d, nil
}

// WriteTables writes the report in Markdown.
func (r *SplitReport) WriteTables(w io.Writer) {
	fmt.Fprintf(w, "%s on %s/%s, %s kernels, and %s, which alone computes %s; opened in %.1f s. Milliseconds of a prompt or a token: medians of runs in turns (lowest–highest).\n",
		r.Model, r.Machine.OS, r.Machine.Arch, r.Machine.Kernels, r.Device, r.Alone, r.Opening)
	fmt.Fprintf(w, "\n| test | cpu | %s | divided | of the better one |\n|---|---|---|---|---|\n", r.Device)
	for _, t := range r.Tests {
		fmt.Fprintf(w, "| %s |", t.Name)
		for _, s := range []bench.Spread{t.CPU, t.Device, t.Split} {
			fmt.Fprintf(w, " %.3f (%.3f–%.3f) |", s.Median, s.Min, s.Max)
		}
		fmt.Fprintf(w, " %.3f |\n", t.OfBetter)
	}
	if r.Whole {
		fmt.Fprintf(w, "\nNo product is divided: %s has the whole pass in the divided model too, which was predicted to be faster than any division.\n", r.Device)
		return
	}
	fmt.Fprintf(w, "\n| product | size | there, of one token | of how many and more | there | steps of one: predicted | took | waited | of many: predicted | took | waited |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, p := range r.Matmuls {
		fmt.Fprintf(w, "| %s | %d of %d×%d %s | %.0f %% |", p.Name, p.Count, p.Rows, p.Cols, p.Type, 100*p.OneFraction)
		if p.MinTokens > 0 {
			fmt.Fprintf(w, " %d | %.0f %% |", p.MinTokens, 100*p.ManyFraction)
		} else {
			fmt.Fprint(w, " | |")
		}
		p.One.write(w)
		p.Many.write(w)
		fmt.Fprintln(w)
	}
}

// write writes the columns of a step.
func (s *SplitSteps) write(w io.Writer) {
	switch {
	case s == nil:
		fmt.Fprint(w, " | | |")
	case s.Predicted == 0:
		fmt.Fprintf(w, " | %.0f µs | %.0f |", s.Took, s.Waited)
	default:
		fmt.Fprintf(w, " %.0f µs | %.0f | %.0f |", s.Predicted, s.Took, s.Waited)
	}
}
