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

// GPUOptions configure GPU.
type GPUOptions struct {
	Path    string
	FS      fs.FS  // file system of Path; nil = the operating system's
	Device  string // see opencl.Options
	Chunk   int
	Prefill []int // prompt lengths
	Decode  int   // generated tokens
	Depths  []int // tokens in the context before a test
	Repeats int
	// SweepBytes is the memory that the bandwidth measurement reads; 0 = 2 GiB, or what the device
	// allows.
	SweepBytes int
	Loading    func(done, total int64) // may be nil
}

// GPUReport holds the measurements of a GPU.
type GPUReport struct {
	Model  string        `json:"model"`
	Device opencl.Info   `json:"device"`
	Shares bool          `json:"shares_memory"`
	Limits opencl.Limits `json:"limits"`
	// Weights is the requested source of codes; Images is the number of matrices that use images.
	Weights opencl.Source `json:"weights"`
	Images  int64         `json:"images"`
	// Arithmetic is the arithmetic of prefill matmuls.
	Arithmetic  opencl.Arithmetic `json:"arithmetic"`
	WeightBytes int64             `json:"weight_bytes"` // on the device; every token reads all of them
	HeldBytes   int64             `json:"held_bytes"`
	LoadSeconds float64           `json:"load_seconds"`
	NotRecorded string            `json:"not_recorded,omitempty"` // why the driver does not replay recorded launches
	Tests       []GPUTest         `json:"tests"`
}

// GPUTest is one timed operation.
type GPUTest struct {
	Name string `json:"name"` // pp and the prompt length, or tg and the number of generated tokens
	// Milliseconds are of a prompt, or of one generated token.
	Milliseconds bench.Spread `json:"ms"`
	TokPerSec    float64      `json:"tok_per_s"` // of the median
	Depth        int          `json:"depth"`
	TFlops       float64      `json:"tflop_s,omitempty"` // matmuls of a prompt
	// For tg: BoundMs is the time for reading the weights and the context once, and Times the
	// median as a multiple of it.
	BoundMs  float64      `json:"bound_ms,omitempty"`
	Times    float64      `json:"times_bound,omitempty"`
	Launches int64        `json:"launches"` // of a prompt or of a token
	Waits    int64        `json:"waits"`
	Graphs   float64      `json:"graphs"`   // per token: command graphs that submit its launches together
	Commands []GPUCommand `json:"commands"` // of a prompt or of a token, in another run
}

// GPUCommand sums up the launches of one kernel, or copies, by the device's clock. A separate run
// reads the clock, because that takes time.
type GPUCommand struct {
	Name   string  `json:"name"`
	Count  float64 `json:"count"`
	Micros float64 `json:"us"` // total
}

// tracedTokens is the most generated tokens that a trace covers.
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

// measureLimits measures the device before the model takes memory.
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

// passTests returns tests of prompts and, if decode is above 0, of a generation, at each depth.
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

// time runs a test several times, and once more to trace its commands.
func (r *GPUReport) time(ctx context.Context, b *bench.Runner, n *gpupass.Network, t bench.Test, repeats int) (g GPUTest, err error) {
	g.Name, g.Depth = t.Name, t.Depth
	if _, err := b.Run(ctx, &t, false); err != nil { // warm-up: builds kernels
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

// trace runs a test once and reads the device's clock.
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
	shared := "its own memory"
	if r.Shares {
		shared = "the machine's memory"
	}
	fmt.Fprintf(w, "%s (%s, %s), %d compute units, %s\n\n", r.Device.Name, r.Device.Platform, r.Device.Driver, r.Device.ComputeUnits, shared)
	fmt.Fprintf(w, "reads %.0f GB/s; launch and wait %v, one of many launches %v; weights %.3f GB, loaded in %.1f s\n\n",
		r.Limits.ReadGBs, r.Limits.LaunchWait, r.Limits.Launch, float64(r.WeightBytes)/1e9, r.LoadSeconds)
	if r.Arithmetic != opencl.Floats {
		fmt.Fprintf(w, "prefill uses %v arithmetic\n\n", r.Arithmetic)
	}
	if r.Weights == opencl.Images {
		fmt.Fprintf(w, "the codes of %d matrices are images, which read at %.0f GB/s\n\n", r.Images, r.Limits.ImageGBs)
	}
	if r.NotRecorded != "" {
		fmt.Fprintf(w, "the driver does not replay recorded launches: %s\n\n", r.NotRecorded)
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
