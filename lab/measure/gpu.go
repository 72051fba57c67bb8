package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/gpupass"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/kv"
)

// GPUOptions say what to time on a GPU.
type GPUOptions struct {
	Path    string
	FS      fs.FS  // where Path is looked up; nil = the operating system
	Device  string // see opencl.Options
	Chunk   int
	Prefill []int // lengths of prompts
	Decode  int   // tokens of a generation
	Depths  []int // tokens that are in the context beforehand
	Repeats int
	// SweepBytes is how much memory is read to measure the bandwidth; 0 = 2 GiB, or
	// what the device allows.
	SweepBytes int
	Loading    func(done, total int64) // may be nil
}

// GPUReport is what was measured on a GPU.
type GPUReport struct {
	Model  string        `json:"model"`
	Device opencl.Info   `json:"device"`
	Shares bool          `json:"shares_memory"`
	Limits opencl.Limits `json:"limits"`
	// Weights is how codes were to be read, Images of how many matrices they are images.
	Weights opencl.Source `json:"weights"`
	Images  int64         `json:"images"`
	// Arithmetic is that of products of many tokens.
	Arithmetic  opencl.Arithmetic `json:"arithmetic"`
	WeightBytes int64             `json:"weight_bytes"` // on the device, all read for each token
	HeldBytes   int64             `json:"held_bytes"`
	LoadSeconds float64           `json:"load_seconds"`
	NotRecorded string            `json:"not_recorded,omitempty"` // why the driver submits tokens launch by launch
	Tests       []GPUTest         `json:"tests"`
}

// GPUTest is one thing that was timed.
type GPUTest struct {
	Name string `json:"name"` // pp and the length of a prompt, or tg and how much was generated
	// Milliseconds are of a prompt, or of one token of a generation.
	Milliseconds bench.Spread `json:"ms"`
	TokPerSec    float64      `json:"tok_per_s"` // of the median
	Depth        int          `json:"depth"`
	TFlops       float64      `json:"tflop_s,omitempty"` // products of a prompt with weights
	// BoundMs is how long the device takes to read the weights and the context once,
	// Times how many times that the median is; of generations.
	BoundMs  float64      `json:"bound_ms,omitempty"`
	Times    float64      `json:"times_bound,omitempty"`
	Launches int64        `json:"launches"` // of a prompt or of a token
	Waits    int64        `json:"waits"`
	Graphs   float64      `json:"graphs"`   // of a token, that submit its launches as one
	Commands []GPUCommand `json:"commands"` // of a prompt or of a token, in another run
}

// GPUCommand is the launches of one kernel, or copies, by the device's clock. The
// clock is asked for in a run of its own, because asking takes time.
type GPUCommand struct {
	Name   string  `json:"name"`
	Count  float64 `json:"count"`
	Micros float64 `json:"us"` // together
}

// tracedTokens is how many tokens of a generation are traced.
const tracedTokens = 8

// GPU times a model on a GPU.
func GPU(ctx context.Context, o GPUOptions) (_ *GPUReport, err error) {
	r := &GPUReport{Model: o.Path}
	if err := r.measureLimits(&o); err != nil {
		return nil, err
	}
	files, err := modelfile.Open(bench.FSOf(o.FS), o.Path)
	if err != nil {
		return nil, err
	}
	var network *gpupass.Network
	start := time.Now()
	model, err := exec.Load(ctx, files, exec.Options{
		Chunk: o.Chunk, KV: kv.K8V8, Progress: o.Loading,
		Accelerator: gpupass.Accelerator{Device: o.Device, Layers: gpupass.All, Opened: func(n *gpupass.Network) { network = n }},
	})
	if err := errors.Join(err, files.Close()); err != nil {
		return nil, err
	}
	defer model.Close()
	r.LoadSeconds = time.Since(start).Seconds()
	r.WeightBytes = network.WeightBytes()
	b := bench.NewPassRunner(model)
	defer b.Close()
	tests := passTests(o.Prefill, o.Decode, o.Depths)
	if err := bench.AllFit(tests, model); err != nil {
		return nil, err
	}
	for _, t := range tests {
		result, err := r.time(ctx, b, network, t, o.Repeats)
		if err != nil {
			return nil, err
		}
		r.Tests = append(r.Tests, result)
	}
	stats := network.Context().Stats()
	r.HeldBytes, r.Images = stats.Held, stats.Images
	if err := network.NotRecorded(); err != nil {
		r.NotRecorded = err.Error()
	}
	return r, nil
}

// measureLimits asks the device what it can do, before memory is taken.
func (r *GPUReport) measureLimits(o *GPUOptions) (err error) {
	c, err := opencl.Open(opencl.Options{Device: o.Device})
	if err != nil {
		return err
	}
	r.Device, r.Shares, r.Weights, r.Arithmetic = c.Info, c.SharesMemory, c.Weights, c.Arithmetic
	bytes := o.SweepBytes
	if bytes == 0 {
		bytes = int(min(2<<30, c.Info.MaxAllocation/2))
	}
	r.Limits, err = c.Measure(bytes &^ 4095)
	return errors.Join(err, c.Close())
}

// passTests are prompts of some lengths, and a generation unless it has no tokens,
// behind contexts.
func passTests(prefill []int, decode int, depths []int) (tests []bench.Test) {
	for _, depth := range depths {
		for _, n := range prefill {
			tests = append(tests, bench.Test{Name: fmt.Sprintf("pp%d", n), Depth: depth, Length: n})
		}
		if decode > 0 {
			tests = append(tests, bench.Test{Name: fmt.Sprintf("tg%d", decode), Depth: depth, Length: decode, Decode: true})
		}
	}
	return tests
}

// time runs a test several times, and once more to see where the time goes.
func (r *GPUReport) time(ctx context.Context, b *bench.Runner, n *gpupass.Network, t bench.Test, repeats int) (g GPUTest, err error) {
	g.Name, g.Depth = t.Name, t.Depth
	if _, err := b.Run(ctx, &t, false); err != nil { // kernels are built
		return g, err
	}
	var took []float64
	var stats opencl.Stats
	for range repeats {
		if _, err := b.Sequence(ctx, t.Depth); err != nil { // not counted
			return g, err
		}
		before := n.Context().Stats()
		d, err := b.Run(ctx, &t, false)
		if err != nil {
			return g, err
		}
		stats = n.Context().Stats().Since(before)
		took = append(took, 1e3*d.Seconds()/t.Units())
	}
	g.Milliseconds = bench.SpreadOf(took)
	g.Launches, g.Waits = stats.Launches/int64(t.Units()), stats.Waits/int64(t.Units())
	g.Graphs = float64(stats.Graphs) / t.Units()
	g.TokPerSec = 1e3 / g.Milliseconds.Median
	if !t.Decode {
		g.TokPerSec *= float64(t.Length)
		each, wanted := n.Ops()
		g.TFlops = (float64(each)*float64(t.Length) + float64(wanted)) / g.Milliseconds.Median / 1e9
	} else {
		bytes := r.WeightBytes + b.Model.KVBytesRead(t.Depth+t.Length/2)
		g.BoundMs = float64(bytes) / r.Limits.ReadGBs / 1e6
		g.Times = g.Milliseconds.Median / g.BoundMs
	}
	g.Commands, err = r.trace(ctx, b, n, t)
	return g, err
}

// trace runs a test once with the device's clock.
func (r *GPUReport) trace(ctx context.Context, b *bench.Runner, n *gpupass.Network, t bench.Test) (list []GPUCommand, err error) {
	if t.Decode {
		t.Length = min(t.Length, tracedTokens)
	}
	if _, err := b.Sequence(ctx, t.Depth); err != nil {
		return nil, err
	}
	recorder := trace.New()
	if err := n.Context().SetTrace(recorder); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.Context().SetTrace(nil)) }()
	if _, err := b.Run(ctx, &t, false); err != nil {
		return nil, err
	}
	for _, total := range recorder.Totals(n.Context().Info.Name, "queue") {
		list = append(list, GPUCommand{total.Name, float64(total.Count) / t.Units(), float64(total.Time.Nanoseconds()) / 1e3 / t.Units()})
	}
	return list, nil
}

// WriteTable writes the report as tables in Markdown.
func (r *GPUReport) WriteTable(w io.Writer) {
	shared := "memory of its own"
	if r.Shares {
		shared = "the machine's memory"
	}
	fmt.Fprintf(w, "%s (%s, %s), %d compute units, %s\n\n", r.Device.Name, r.Device.Platform, r.Device.Driver, r.Device.ComputeUnits, shared)
	fmt.Fprintf(w, "reads %.0f GB/s; launch and wait %v, a launch among many %v; weights %.3f GB, loaded in %.1f s\n\n",
		r.Limits.ReadGBs, r.Limits.LaunchWait, r.Limits.Launch, float64(r.WeightBytes)/1e9, r.LoadSeconds)
	if r.Arithmetic != opencl.Floats {
		fmt.Fprintf(w, "prompts are multiplied in %v arithmetic\n\n", r.Arithmetic)
	}
	if r.Weights == opencl.Images {
		fmt.Fprintf(w, "codes of %d matrices are read as images, which gives %.0f GB/s\n\n", r.Images, r.Limits.ImageGBs)
	}
	if r.NotRecorded != "" {
		fmt.Fprintf(w, "tokens are submitted launch by launch: %s\n\n", r.NotRecorded)
	}
	fmt.Fprintln(w, "| test | depth | tok/s | ms (lowest–highest) | TFLOP/s | bound, ms | times bound | launches | waits | graphs |\n|---|---|---|---|---|---|---|---|---|---|")
	for _, t := range r.Tests {
		fmt.Fprintf(w, "| %s | %d | %.1f | %.3f (%.3f–%.3f) | %.1f | %.3f | %.2f | %d | %d | %.2f |\n", t.Name, t.Depth, t.TokPerSec,
			t.Milliseconds.Median, t.Milliseconds.Min, t.Milliseconds.Max, t.TFlops, t.BoundMs, t.Times, t.Launches, t.Waits, t.Graphs)
	}
	for _, t := range r.Tests {
		fmt.Fprintf(w, "\n%s at depth %d, by the device's clock:\n\n| command | times | µs each | µs |\n|---|---|---|---|\n", t.Name, t.Depth)
		for _, c := range t.Commands {
			fmt.Fprintf(w, "| %s | %.1f | %.2f | %.1f |\n", c.Name, c.Count, c.Micros/c.Count, c.Micros)
		}
	}
}
