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

// SplitOptions configure CompareSplit.
type SplitOptions struct {
	Path    string
	FS      fs.FS  // file system of Path; nil = the operating system's
	Device  string // see split.Options
	Quota   float64
	Threads int // 0 = the fast cores
	Chunk   int
	Prefill []int // prompt lengths
	Decode  int   // generated tokens
	Repeats int
	Dir     string // directory of saved measurements; "" = none
	// Loading and Running receive the progress. Notify receives messages: the start and the
	// result of the trial of the split, and saved measurements that are not used. All may be nil.
	Loading, Running func(done, total int64)
	Notify           func(text string)
}

// ErrUnknownDevice reports a name that no device has.
var ErrUnknownDevice = devices.ErrUnknown

// SplitReport compares passes of a model on the CPU, on a device, and split between them.
type SplitReport struct {
	Model   string        `json:"model"`
	Machine bench.Machine `json:"machine"`
	Device  string        `json:"device"`
	Alone   string        `json:"device_alone"`    // what the device computes alone
	Opening float64       `json:"opening_seconds"` // of the split model; the first time, including measurements of the devices and the split
	Tests   []SplitTest   `json:"tests"`
	// Whole reports that the device computes the whole pass in the split model too, because the
	// prediction is faster than that of any split. Then no matmul is split.
	Whole   bool       `json:"whole_pass_on_device"`
	Matmuls []SplitRow `json:"products"`
}

// SplitRow is the split of one kind of matrix, and the times of the steps that begin with it, for
// one token and for at least MinTokens.
type SplitRow struct {
	Name            string      `json:"name"`
	Count           int         `json:"count"`
	Rows            int         `json:"rows"`
	Cols            int         `json:"cols"`
	Type            string      `json:"type"`
	DecodeFraction  float64     `json:"one_share"` // fraction of the rows that the device computes
	PrefillFraction float64     `json:"many_share"`
	MinTokens       int         `json:"least"` // 0: the matrix multiplies single tokens only
	Decode          *SplitSteps `json:"one,omitempty"`
	Prefill         *SplitSteps `json:"many,omitempty"`
}

// SplitSteps is the average time of a step.
type SplitSteps struct {
	Steps     int             `json:"steps"`
	Predicted deviceplan.Time `json:"predicted_us,omitempty"` // 0: no prediction
	Took      deviceplan.Time `json:"took_us"`
	Waited    deviceplan.Time `json:"waited_us"` // for the device
}

// SplitTest is one operation, timed in three ways.
type SplitTest struct {
	Name   string       `json:"name"`   // pp and the prompt length, or tg and the number of generated tokens
	CPU    bench.Spread `json:"cpu_ms"` // of a prompt, or of one generated token
	Device bench.Spread `json:"device_ms"`
	Split  bench.Spread `json:"divided_ms"`
	// OfBetter is the ratio of the split time to the better of the other two: the median over
	// consecutive runs.
	OfBetter float64 `json:"of_better"`
}

// Ways to compute a pass.
const (
	onCPU = iota
	onDevice
	onSplit
	passWays
)

// CompareSplit times passes on the CPU, on a device, and split between them. All runs take turns.
func CompareSplit(ctx context.Context, o SplitOptions) (_ *SplitReport, err error) {
	r := &SplitReport{Model: o.Path, Machine: bench.ThisMachine(), Device: o.Device}
	if o.Threads == 0 { // the CPU alone uses as many threads as beside the device
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
		if err := bench.AllFit(tests, model); err != nil { // before the next load
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

// list records the splits of a model; matmuls is nil for a model without splits.
func (r *SplitReport) list(matmuls []weights.SplitMatmul) {
	r.Whole = matmuls == nil
	r.Matmuls = []SplitRow{} // an empty list rather than null
	for _, p := range matmuls {
		decode, prefill := p.Fractions()
		r.Matmuls = append(r.Matmuls, SplitRow{
			Name: p.Name, Count: p.Count, Rows: p.Rows, Cols: p.Cols, Type: p.Type.String(),
			DecodeFraction: decode, PrefillFraction: prefill, MinTokens: p.Split.MinBatch,
			Decode: averageStep(p.Single), Prefill: averageStep(p.Batch),
		})
	}
}

// averageStep returns nil if no step began with the matrix.
func averageStep(s weights.SplitSteps) *SplitSteps {
	n := time.Duration(s.Steps)
	if n == 0 {
		return nil
	}
	return &SplitSteps{s.Steps, deviceplan.Microseconds(s.Predicted / n), deviceplan.Microseconds(s.Took / n), deviceplan.Microseconds(s.Waited / n)}
}

// load opens the model for one of the ways.
func (r *SplitReport) load(ctx context.Context, o *SplitOptions, way int) (model *exec.Model, err error) {
	files, err := modelfile.Open(bench.FSOf(o.FS), o.Path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	options := exec.Options{Threads: o.Threads, Chunk: o.Chunk, KV: kv.K8V8, Progress: o.Loading}
	splitOptions := split.Options{Device: o.Device, Quota: o.Quota, Dir: o.Dir, Report: o.Notify}
	switch way {
	case onDevice:
		return r.loadAlone(ctx, files, options, splitOptions)
	case onSplit:
		begin := time.Now()
		defer func() { r.Opening = time.Since(begin).Seconds() }()
		return split.Load(ctx, files, options, splitOptions)
	}
	return exec.Load(ctx, files, options)
}

// loadAlone opens the model on the device. The device computes whole passes if it can, and
// otherwise all matmuls, with other operations on the CPU.
func (r *SplitReport) loadAlone(ctx context.Context, files *modelfile.Files, model exec.Options, o split.Options) (*exec.Model, error) {
	r.Alone = "the whole pass"
	m, err := split.LoadOnDevice(ctx, files, model, o)
	if errors.Is(err, arch.ErrUnsupported) {
		r.Alone, o.Alone = "all matmuls that it supports", true
		return split.Load(ctx, files, model, o)
	}
	return m, err
}

// timeInTurns runs a test in each way, in turns.
func timeInTurns(ctx context.Context, benches *[passWays]*bench.Runner, t *bench.Test, repeats int) (d SplitTest, err error) {
	d.Name = t.Name
	var took [passWays][]float64
	var ratios []float64
	for n := range repeats + 1 { // the first round warms up
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
	fmt.Fprintf(w, "%s on %s/%s, %s kernels, and %s, which alone computes %s; opened in %.1f s. Milliseconds per prompt or token: medians of runs in turns (lowest–highest).\n",
		r.Model, r.Machine.OS, r.Machine.Arch, r.Machine.Kernels, r.Device, r.Alone, r.Opening)
	fmt.Fprintf(w, "\n| test | cpu | %s | split | of the better one |\n|---|---|---|---|---|\n", r.Device)
	for _, t := range r.Tests {
		fmt.Fprintf(w, "| %s |", t.Name)
		for _, s := range []bench.Spread{t.CPU, t.Device, t.Split} {
			fmt.Fprintf(w, " %.3f (%.3f–%.3f) |", s.Median, s.Min, s.Max)
		}
		fmt.Fprintf(w, " %.3f |\n", t.OfBetter)
	}
	if r.Whole {
		fmt.Fprintf(w, "\nNo matmul is split: %s computes the whole pass in the split model too, because the prediction is faster than that of any split.\n", r.Device)
		return
	}
	fmt.Fprintf(w, "\n| matmul | size | device, one token | tokens | device, as many tokens or more | decode step: predicted | took | waited | prefill step: predicted | took | waited |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, p := range r.Matmuls {
		fmt.Fprintf(w, "| %s | %d of %d×%d %s | %.0f %% |", p.Name, p.Count, p.Rows, p.Cols, p.Type, 100*p.DecodeFraction)
		if p.MinTokens > 0 {
			fmt.Fprintf(w, " %d | %.0f %% |", p.MinTokens, 100*p.PrefillFraction)
		} else {
			fmt.Fprint(w, " | |")
		}
		p.Decode.write(w)
		p.Prefill.write(w)
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
