// Package bench measures the speed of a model: prefill, decoding, and both at depth. It also
// writes models of random weights in published shapes, for measurements without a download.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
)

// Options configure a benchmark. Each combination of a number of threads, a depth, and a length
// in Prefill or Decode is a test.
type Options struct {
	Path    string
	FS      fs.FS  // file system of Path; nil = the operating system's
	KV      string // precision of keys and values; "" = the library's default
	Chunk   int    // tokens in a prefill chunk; 0 = the default
	Prefill []int  // prompt lengths
	Decode  []int  // numbers of tokens to generate
	Depths  []int  // tokens in the context before a test
	Threads []int  // 0 = the fast cores
	Repeats int
	// Sustain is how long to decode without a pause after the tests, with the most threads and
	// at the first depth; 0 = not at all. System is the root of the files that tell frequency
	// and energy; nil = that of the operating system.
	Sustain time.Duration
	System  fs.FS
	// SweepBytes is the memory that the bandwidth measurement reads; 0 = 1 GiB, or less if
	// memory is short.
	SweepBytes int
	// RAM is the memory budget of the process, 0 for none: the measurement of the limits keeps
	// within it. Open applies it to the model.
	RAM int64
	// Open opens the model, in place of the library's defaults; KV and Chunk are unused then.
	// It passes the progress of loading to Loading.
	Open func(ctx context.Context, threads, context int) (*Opened, error)
	// Loading and Running, which may be nil, receive the progress in bytes and in runs.
	Loading, Running func(done, total int64)
}

// Opened is a model that Options.Open has opened.
type Opened struct {
	Model *exec.Model
	KV    string // precision of keys and values
	RAM   int64  // memory budget in bytes
	Close func() error
}

// Report is the result of a benchmark.
type Report struct {
	Model   string  `json:"model"`
	Machine Machine `json:"machine"`
	KV      string  `json:"kv"`
	RAM     int64   `json:"ram_bytes,omitempty"` // memory budget; 0 = none
	Limits  Limits  `json:"limits"`
	Tests   []Test  `json:"tests"`
	// Sustained is set with Options.Sustain.
	Sustained   *Sustained `json:"sustained,omitempty"`
	WeightBytes int64      `json:"weight_bytes_per_token"` // read to decode one token, without keys and values
	LoadSeconds float64    `json:"load_seconds"`
	PeakRSS     int64      `json:"peak_rss_bytes"` // 0 = the system does not report it
}

// Machine describes the machine of a measurement.
type Machine struct {
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	Processors int    `json:"processors"`
	Kernels    string `json:"kernels"` // instruction set of the matmul kernels
}

// ThisMachine describes the machine of this process.
func ThisMachine() Machine {
	return Machine{runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), quant.Features()}
}

// Test is one timed operation.
type Test struct {
	Name      string `json:"name"` // pp and the prompt length, or tg and the number of generated tokens
	Threads   int    `json:"threads"`
	Depth     int    `json:"depth"`
	TokPerSec Spread `json:"tok_per_s"`
	// OfLimit is the median as a fraction of its limit: of the read bandwidth for tg, of the
	// integer peak of vector registers for pp.
	// It is 0 if the limit was not measured.
	OfLimit float64 `json:"of_limit"`
	// BytesPerToken are the weights, keys and values that a token of tg reads, OpsPerToken the
	// operations (two per weight) that a token of pp takes. The other field is 0.
	BytesPerToken int64 `json:"bytes_per_token,omitempty"`
	OpsPerToken   int64 `json:"ops_per_token,omitempty"`
	// FlashPerToken is the bytes of weights that the test read from flash for each token.
	FlashPerToken int64 `json:"flash_bytes_per_token,omitempty"`

	Length  int       `json:"-"` // number of tokens
	Decode  bool      `json:"-"`
	samples []float64 // tokens per second, one per run
	flash   int64     // bytes of weights that all runs read from flash
}

// Spread summarizes the runs of a test.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// SpreadOf summarizes values, and sorts them.
func SpreadOf(values []float64) Spread {
	slices.Sort(values)
	return Spread{Median(values), values[0], values[len(values)-1]}
}

// ErrBench reports that a test is impossible with this model.
var ErrBench = errors.New("cannot be measured")

// fits returns an error if the test needs more tokens than the model's context.
func (t *Test) fits(model *exec.Model) error {
	if most := model.Context(); t.Depth+t.Length > most {
		return fmt.Errorf("%w: %s at depth %d needs %d tokens of context, and the model has %d", ErrBench, t.Name, t.Depth, t.Depth+t.Length, most)
	}
	return nil
}

// AllFit returns an error if a test needs more tokens than the model's context.
func AllFit(tests []Test, model *exec.Model) error {
	for i := range tests {
		if err := tests[i].fits(model); err != nil {
			return err
		}
	}
	return nil
}

// Run times a model. The runs of all tests take turns, so that load or heat slows all of them.
func Run(ctx context.Context, o Options) (*Report, error) {
	o.useDefaults()
	r := &Report{
		Model:   o.Path,
		Machine: ThisMachine(),
		Tests:   o.tests(),
	}
	if err := r.Limits.measureWithin(&o); err != nil {
		return nil, err
	}
	var memory memoryWatch
	memory.begin()
	if err := r.run(ctx, &o); err != nil {
		return nil, err
	}
	memory.sample()
	r.PeakRSS = memory.peak
	// The limits are measured again after the runs, because machines drift within minutes.
	if err := r.Limits.measureWithin(&o); err != nil {
		return nil, err
	}
	for i := range r.Tests {
		r.Tests[i].summarize(&r.Limits)
	}
	return r, nil
}

func (o *Options) useDefaults() {
	for i, n := range o.Threads {
		if n == 0 {
			o.Threads[i] = threadpool.DefaultThreads()
		}
	}
	slices.Sort(o.Threads)
	o.Threads = slices.Compact(o.Threads)
}

// tests lists the tests in the order of a round.
func (o *Options) tests() (tests []Test) {
	for _, threads := range o.Threads {
		for _, depth := range o.Depths {
			for _, n := range o.Prefill {
				tests = append(tests, Test{Name: fmt.Sprintf("pp%d", n), Threads: threads, Depth: depth, Length: n})
			}
			for _, n := range o.Decode {
				tests = append(tests, Test{Name: fmt.Sprintf("tg%d", n), Threads: threads, Depth: depth, Length: n, Decode: true})
			}
		}
	}
	return tests
}

// run loads the model and times all tests.
func (r *Report) run(ctx context.Context, o *Options) error {
	opened, err := r.load(ctx, o)
	if err != nil {
		return err
	}
	if err = r.runOn(ctx, o, opened.Model); err == nil {
		err = r.sustain(ctx, o, opened.Model)
	}
	return errors.Join(err, opened.Close())
}

// runOn times all tests with a model.
func (r *Report) runOn(ctx context.Context, o *Options, model *exec.Model) error {
	b := NewRunner(model)
	defer b.Close()
	traffic := model.Traffic()
	r.WeightBytes = traffic.WeightBytes
	for i := range r.Tests {
		t := &r.Tests[i]
		if err := t.fits(model); err != nil {
			return err
		}
		t.count(model, traffic)
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	rounds := 1 + o.Repeats // the first round warms up caches and is not counted
	for round := range rounds {
		for i := range r.Tests {
			if err := b.time(ctx, &r.Tests[i], round == 0); err != nil {
				return err
			}
			if o.Running != nil {
				o.Running(int64(round*len(r.Tests)+i+1), int64(rounds*len(r.Tests)))
			}
		}
	}
	return nil
}

// load opens the model.
func (r *Report) load(ctx context.Context, o *Options) (*Opened, error) {
	start, open := time.Now(), o.Open
	if open == nil {
		open = o.openWithDefaults
	}
	longest := 0
	if o.Sustain > 0 {
		longest = o.Depths[0] + sustainedTokens
	}
	for i := range r.Tests {
		longest = max(longest, r.Tests[i].Depth+r.Tests[i].Length)
	}
	opened, err := open(ctx, o.Threads[len(o.Threads)-1], longest)
	if err != nil {
		return nil, err
	}
	r.LoadSeconds, r.KV, r.RAM = time.Since(start).Seconds(), opened.KV, opened.RAM
	return opened, nil
}

// openWithDefaults opens the model with the library's defaults and no memory budget.
func (o *Options) openWithDefaults(ctx context.Context, threads, _ int) (*Opened, error) {
	files, err := modelfile.Open(FSOf(o.FS), o.Path)
	if err != nil {
		return nil, err
	}
	format := kv.F32
	if files.Quantized() {
		format = kv.K8V8
	}
	if o.KV != "" {
		format, err = kv.ParseFormat(o.KV)
	}
	var model *exec.Model
	if err == nil {
		model, err = exec.Load(ctx, files, exec.Options{Threads: threads, Chunk: o.Chunk, KV: format, Progress: o.Loading})
	}
	if err := errors.Join(err, files.Close()); err != nil {
		if model != nil {
			model.Close()
		}
		return nil, err
	}
	closeModel := func() error { model.Close(); return nil }
	return &Opened{Model: model, KV: format.String(), Close: closeModel}, nil
}

// count sets the bytes or operations per token of the test.
func (t *Test) count(model *exec.Model, traffic exec.Traffic) {
	if t.Decode {
		t.BytesPerToken = traffic.WeightBytes + model.StateBytesMoved() + model.KVBytesRead(t.Depth+t.Length/2)
		return
	}
	// The model prunes rows without logits: only the last token of a prompt goes through the end of
	// the last layer and the head.
	last := traffic.PrunedMulAdds + traffic.HeadMulAdds
	t.OpsPerToken = 2 * (traffic.LayerMulAdds - traffic.PrunedMulAdds + last/int64(t.Length))
}

// summarize computes the result from the runs.
func (t *Test) summarize(l *Limits) {
	t.FlashPerToken = t.flash / int64(max(1, len(t.samples)*t.Length))
	t.TokPerSec = SpreadOf(t.samples)
	at := l.at(t.Threads)
	switch {
	case t.Decode && at.ReadGBs == 0: // no room to measure the limit
	case t.Decode:
		t.OfLimit = t.TokPerSec.Median * float64(t.BytesPerToken) / (at.ReadGBs * 1e9)
	default:
		t.OfLimit = t.TokPerSec.Median * float64(t.OpsPerToken) / (at.Int8Gops * 1e9)
	}
}

// Units returns the number of units that reports divide a time by: generated tokens, or one
// prompt.
func (t *Test) Units() float64 {
	if t.Decode {
		return float64(t.Length)
	}
	return 1
}
