package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/llmrun/llmrun/cmd/llmrun/bundled"
	"github.com/llmrun/llmrun/cmd/llmrun/measure"
)

func benchCommand() *command {
	return &command{
		name:     "bench",
		synopsis: "[-m MODEL | --shape NAME] [--pp LIST] [--tg LIST] [flags]",
		summary:  "time a model, beside what the machine could do at most",
		about: `Times reading prompts (pp) and generating (tg), each test several times, in turns, so that a machine that gets busy slows all of them. Before and after, it measures how fast the machine reads memory and multiplies 8-bit integers in vector registers: generating cannot be faster than the first allows, reading prompts not faster than the second, unless the processor has a matrix unit, whose own limit is printed too. "of limit" is how close the median comes.

--shape writes a model of random weights first (see llmrun synth), which is removed afterwards.

--json prints {"limits":{"read_gb_s":…,"int8_gop_s":…},"tests":[{"name":"pp512","threads":2,"depth":0,"tok_per_s":{"median":…,"min":…,"max":…},"of_limit":…}],"peak_rss_bytes":…} and more. The peak is that of the model at work, without the memory that the limits are measured with; it is 0 where the system does not tell.`,
		examples: []example{
			{"llmrun bench --pp 64 --tg 16 -r 1", "the bundled model, quickly"},
			{"llmrun bench -m model.gguf --threads 1,2 --json", "a model with one thread and with two, for a script"},
			{"llmrun bench --shape llama-3.2-1b --depth 0,4096", "a shape, also behind 4096 tokens of context"},
			{"llmrun bench --shape qwen2.5-1.5b --quant q4_k_m --keep", "keep the model that is written for it"},
		},
		prepare: func(f *flagSet) action {
			b := &benchFlags{mix: defaultMix}
			b.o.Prefill, b.o.Decode, b.o.Depths, b.o.Threads, b.o.Repeats = []int{512}, []int{64}, []int{0}, []int{0}, 5
			b.model.addModel(f)
			f.text(&b.shape, "shape", "NAME", "random weights in the shape of this model instead; llmrun synth --list shows them")
			addMix(f, &b.mix)
			f.toggle(&b.keep, "keep", "do not remove the file that --shape writes")
			b.model.addKV(f)
			f.group("Tests")
			f.counts(&b.o.Prefill, "pp", "lengths of prompts to read, separated by commas; 0 for none; without it, 512", 0, math.MaxInt32)
			f.counts(&b.o.Decode, "tg", "numbers of tokens to generate; 0 for none; without it, 64", 0, math.MaxInt32)
			f.counts(&b.o.Depths, "depth", "tokens that are in the context already; without it, 0", 0, math.MaxInt32)
			f.counts(&b.o.Threads, "threads", "threads to compute with; without it, one for each fast core", 1, 1024)
			f.count(&b.o.Repeats, "r repeats", "N", "runs of each test; without it, 5", 1, 1000)
			f.count(&b.o.Chunk, "chunk", "N", "tokens of a prompt that are computed together; without it, 512", 1, 1<<16)
			f.group("Output")
			f.toggle(&b.json, "json", "print one JSON object")
			return b.run
		},
	}
}

// benchFlags are the flags of bench.
type benchFlags struct {
	model modelFlags
	shape string
	mix   string
	keep  bool
	// context is how many tokens a shape is made for, 0 for as many as it names.
	context int
	json    bool
	o       measure.BenchOptions
}

func (b *benchFlags) run(ctx context.Context, s *streams, args []string) error {
	if err := noArguments(args); err != nil {
		return err
	}
	if err := b.check(); err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	remove, err := b.findModel(ctx, s)
	if err != nil {
		return err
	}
	defer remove()
	report, err := b.measure(ctx, s)
	if err != nil {
		return interruption(ctx, err)
	}
	if b.json {
		return s.out.json(report)
	}
	showReport(s, report)
	return nil
}

// findModel says where the model is, after writing one of a shape, which remove takes
// away again.
func (b *benchFlags) findModel(ctx context.Context, s *streams) (remove func(), err error) {
	switch {
	case b.shape != "":
		return b.synthesize(ctx, s)
	case b.model.path != "":
		b.o.Path = b.model.path
	default:
		b.o.Path, b.o.FS = bundled.Name, bundled.FS
	}
	return func() {}, nil
}

// check refuses flags that contradict each other. A length of 0 asks for no
// test.
func (b *benchFlags) check() error {
	b.o.Prefill, b.o.Decode, b.o.KV = positive(b.o.Prefill), positive(b.o.Decode), b.model.kv
	switch {
	case b.shape != "" && b.model.path != "":
		return usagef("-m names a model and --shape makes one: give one of them")
	case b.keep && b.shape == "":
		return usagef("--keep needs --shape")
	case len(b.o.Prefill)+len(b.o.Decode) == 0:
		return usagef("--pp and --tg leave nothing to measure")
	}
	return nil
}

// positive returns the numbers above 0.
func positive(list []int) (out []int) {
	for _, n := range list {
		if n > 0 {
			out = append(out, n)
		}
	}
	return out
}

// synthesize writes the model of a shape beside other caches of this user, and
// returns what removes it.
func (b *benchFlags) synthesize(ctx context.Context, s *streams) (remove func(), err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "llmrun", "synth") // apart from imported models
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	b.o.Path = filepath.Join(dir, strings.ToLower(b.shape)+"-"+b.mix+".gguf")
	_, err = writeModel(ctx, s, measure.SynthOptions{Path: b.o.Path, Force: true, Shape: b.shape, Quant: b.mix, Context: b.context})
	if err != nil {
		return nil, err
	}
	return func() {
		if b.keep {
			fmt.Fprintf(s.err, "llmrun: the model stays in %s\n", b.o.Path)
		} else if err := os.Remove(b.o.Path); err != nil {
			fmt.Fprintf(s.err, "llmrun: the model could not be removed: %s\n", oneLine(err))
		}
	}, nil
}

// measure runs all tests, with a bar for loading and one for the runs.
func (b *benchFlags) measure(ctx context.Context, s *streams) (*measure.Report, error) {
	loading, running := newMeter(s, "loading", formatBytes), newMeter(s, "measuring", formatRuns)
	defer loading.finish()
	defer running.finish()
	b.o.Loading = loading.update
	b.o.Running = func(done, total int64) {
		loading.finish()
		running.update(done, total)
	}
	report, err := measure.Bench(ctx, b.o)
	if errors.Is(err, measure.ErrBench) {
		return nil, usagef("%v", err)
	}
	return report, err
}

// formatRuns is the amount of a meter that counts runs of tests.
func formatRuns(n int64) string { return fmt.Sprintf("%d runs", n) }

// showReport prints a table for a person.
func showReport(s *streams, r *measure.Report) {
	fmt.Fprintf(s.out, "%s on %s/%s, %s kernels, KV in %s\n", filepath.Base(r.Model), r.Machine.OS, r.Machine.Arch, r.Machine.Kernels, r.KV)
	for _, at := range r.Limits.ByThreads {
		fmt.Fprintf(s.out, "limits, threads %d: memory read %.1f GB/s, int8 %.0f Gop/s (%s)",
			at.Threads, at.ReadGBs, at.Int8Gops, r.Limits.Instruction)
		if at.Matrix > 0 {
			fmt.Fprintf(s.out, ", in tiles %.0f Gop/s (%s)", at.Matrix, r.Limits.MatrixInstruction)
		}
		fmt.Fprintln(s.out)
	}
	fmt.Fprintf(s.out, "\n%-8s %7s %7s %9s  %-17s %11s %9s\n", "test", "threads", "depth", "tok/s", "lowest–highest", "a token", "of limit")
	for _, t := range r.Tests {
		cost := fmt.Sprintf("%.1f MB", float64(t.BytesPerToken)/1e6)
		if t.OpsPerToken > 0 {
			cost = fmt.Sprintf("%.2f Gop", float64(t.OpsPerToken)/1e9)
		}
		spread := fmt.Sprintf("%.1f–%.1f", t.TokPerSec.Min, t.TokPerSec.Max)
		fmt.Fprintf(s.out, "%-8s %7d %7d %9.1f  %-17s %11s %7.0f %%\n",
			t.Name, t.Threads, t.Depth, t.TokPerSec.Median, spread, cost, 100*t.OfLimit)
	}
	fmt.Fprintf(s.out, "\nloaded in %.2f s", r.LoadSeconds)
	if r.PeakRSS > 0 {
		fmt.Fprintf(s.out, ", peak memory %s", formatBytes(r.PeakRSS))
	}
	fmt.Fprintln(s.out)
}
