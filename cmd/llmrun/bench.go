package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/enginemodel"
	"github.com/llmrun/llmrun/internal/modelflag"
)

// defaultPrefill is the length of the prompt of bench.
const defaultPrefill = 512

func benchCommand() *cli.Command {
	return &cli.Command{
		Name:     "bench",
		Synopsis: "[batch | spec] [-m MODEL | --shape NAME] [--pp LIST] [--tg LIST] [flags]",
		Summary:  "time a model and compare it with the limits of the machine",
		About: `Times prefill (pp) and decoding (tg). The tests take turns, several times each, so that other load on the machine slows all of them. Before and after the tests, bench measures the memory bandwidth of the machine and the peak of 8-bit integer operations in vector registers: the first limits decoding, the second prefill. A processor with a matrix unit has a second peak, which is printed too. "of limit" is the median as a percentage of its limit.

bench batch decodes 1, 2, 4, 8 and 16 sequences at the same time, each by the first number of --tg, and tells whether answers should be generated together: tok/s of all, of each, and as a multiple of one. The bound is that of a pass which takes as long as one of a single token, or as long as its operations take at the integer peak. The time has neither prompts nor HTTP, and each token is the likeliest: requests to llmrun serve take their prompts' time besides.

bench spec answers a story, the summary of a note and a question about it, or the prompt of -p and -f, with --draft off and with each drafter in turns, at most the first number of --tg tokens, and tells which --draft pays, that is, makes all prompts together at least 3 % faster, and faster in three of four turns: the speed is the median of those of the turns, each as a multiple of that without guesses in the same turn. It opens the model anew for each drafter and turn, as run does, and fails if an answer differs from that without guesses.

--shape writes a model of random weights first (see llmrun synth), and removes it afterwards.

--ram gives the model a memory budget, as in llmrun run: it imports the model first if it is not a pack, and reports the bytes of weights that each token reads from flash. The measurement of the memory bandwidth keeps within the budget too: it reads less memory, which caches may hold, and says so.

--minutes then decodes for that long without a pause, always at the same depth, and compares the first minute with the last: tok/s, the frequency of the fastest core, and the energy of a token from RAPL (which needs root) or a discharging battery, where the system tells.

--json prints {"limits":{"read_gb_s":…,"int8_gop_s":…},"tests":[{"name":"pp512","threads":2,"depth":0,"tok_per_s":{"median":…,"min":…,"max":…},"of_limit":…}],"peak_rss_bytes":…} and more; with --minutes also "sustained":{"first":{"tok_per_s":…,"core_mhz":…},"last":…,"ratio":…,"joules_per_token":…}. bench batch --json prints [{"n":8,"tok_per_s":…,"bound_tok_per_s":…,"peak_gops":…,"read_gb_s":…}] with an element for each number of sequences. bench spec --json prints [{"drafter":"lookup","text":"story","tokens_per_pass":…,"tok_per_s":…,"tok_per_s_min":…,"tok_per_s_max":…,"plain_tok_per_s":…,"replay":false,"speed":…,"pays":…,"tokens":…,"passes":…,"read_bytes_per_token":…,"drafters":[{"name":…,"proposed":…,"accepted":…}]}] with an element for each drafter and prompt; plain_tok_per_s is the speed without guesses. peak_rss_bytes is the peak while the model runs, without the memory for measuring the limits; it is 0 on systems that do not report it.`,
		Examples: []cli.Example{
			{Line: "llmrun bench --pp 64 --tg 16 -r 1", Purpose: defaultModel + ", quickly"},
			{Line: "llmrun bench -m model.gguf --threads 1,2 --json", Purpose: "a model with one thread and with two, for a script"},
			{Line: "llmrun bench --shape llama-3.2-1b --depth 0,4096", Purpose: "a shape, with an empty context and after 4096 tokens"},
			{Line: "llmrun bench batch -m model.gguf --tg 64 -r 3", Purpose: "whether several answers at a time are faster"},
			{Line: "llmrun bench spec -m model.gguf --ram 2GiB -r 3", Purpose: "which guesses of tokens pay with this memory"},
			{Line: "llmrun bench -m model.gguf --ram 500MiB", Purpose: "with a memory budget"},
			{Line: "llmrun bench -m model.gguf --pp 0 --tg 0 --minutes 10", Purpose: "whether heat makes the machine slower"},
			{Line: "llmrun bench --shape qwen2.5-1.5b --quant q4_k_m --keep", Purpose: "keep the generated model"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			model := modelflag.Source{Bundled: ownFile, Find: findModel}
			o := bench.Options{Prefill: []int{defaultPrefill}, Decode: []int{64}, Depths: []int{0}, Threads: []int{0}, Repeats: 5}
			model.Add(f, modelUsage)
			modelflag.AddKV(f, &o.KV)
			var ram ramFlag
			addRAM(f, &ram, "no limit")
			f.Group("Tests")
			f.Counts(&o.Prefill, "pp", "prompt lengths, separated by commas; 0 for none; default: 512", 0, math.MaxInt32)
			f.Counts(&o.Decode, "tg", "numbers of tokens to generate; 0 for none; default: 64", 0, math.MaxInt32)
			f.Counts(&o.Depths, "depth", "tokens in the context before the test; default: 0", 0, math.MaxInt32)
			f.Counts(&o.Threads, "threads", "number of threads; default: one for each fast core", 1, 1024)
			f.Count(&o.Repeats, "r repeats", "N", "runs of each test; default: 5", 1, 1000)
			f.Value("minutes", "N", "decode for this many minutes after the tests, and compare the first with the last; default: off", func(text string) error {
				n, err := strconv.ParseFloat(text, 64)
				if err != nil || !(n > 0 && n <= 24*60) {
					return fmt.Errorf("must be a number of minutes above 0, such as 10 or 0.5, not %q", text)
				}
				o.Sustain = time.Duration(n * float64(time.Minute))
				return nil
			})
			f.Count(&o.Chunk, "chunk", "N", "tokens in a prefill chunk; default: 512", 1, 1<<16)
			guesses := specFlags{prompt: promptFlags{ram: &ram}}
			guesses.add(f)
			asJSON := modelflag.AddJSON(f)
			return func(ctx context.Context, s *cli.Streams, args []string) error {
				if len(args) > 0 && args[0] == specWord {
					if err := cli.NoArguments(args[1:]); err != nil {
						return err
					}
					return guesses.measurement(s, &model, &ram, &o).Present(ctx, s, *asJSON)
				}
				if guesses.given() {
					return cli.Usagef("--draft, --draft-max, -p, -f, --temp, --disk, --cache-dir and --cache-size need llmrun bench spec")
				}
				if len(args) > 0 && args[0] == batchWord {
					if err := cli.NoArguments(args[1:]); err != nil {
						return err
					}
					return batchMeasurement(&model, &ram, &o).Present(ctx, s, *asJSON)
				}
				if err := cli.NoArguments(args); err != nil {
					return err
				}
				return benchMeasurement(&model, &ram, &o).Present(ctx, s, *asJSON)
			}
		},
	}
}

// benchMeasurement is the measurement of llmrun bench without an argument.
func benchMeasurement(model *modelflag.Source, ram *ramFlag, o *bench.Options) modelflag.Measurement[*bench.Report] {
	return modelflag.Measurement[*bench.Report]{
		Model:  model,
		Amount: modelflag.FormatRuns,
		Check: func() error {
			if err := modelflag.CheckLengths(&o.Prefill, &o.Decode); err != nil && o.Sustain == 0 {
				return err
			}
			return checkChunk(ram, o)
		},
		Run: func(ctx context.Context, t modelflag.Target) (*bench.Report, error) {
			setTarget(o, t, ram, cacheFlags{noKV: true})
			report, err := bench.Run(ctx, *o)
			if errors.Is(err, bench.ErrBench) {
				return nil, cli.Usagef("--pp, --tg, --depth: %v", err)
			}
			return report, err
		},
		Write: showReport,
	}
}

// checkChunk refuses flags that contradict each other.
func checkChunk(ram *ramFlag, o *bench.Options) error {
	if ram.bytes != 0 && o.Chunk != 0 {
		return cli.Usagef("--chunk and --ram exclude each other: the plan of the budget chooses the chunk")
	}
	return nil
}

// setTarget sets the model of a benchmark and its memory budget.
func setTarget(o *bench.Options, t modelflag.Target, ram *ramFlag, cache cacheFlags) {
	o.Path, o.FS, o.Loading, o.Running = t.Path, t.FS, t.Loading, t.Running
	if ram.bytes != 0 {
		o.RAM, o.Open = max(0, ram.bytes), openWithBudget(t, o.KV, ram.bytes, cache)
	}
}

// showReport prints a table for a person.
func showReport(r *bench.Report, w io.Writer) {
	fmt.Fprintf(w, "%s on %s/%s, %s kernels, KV in %s\n", cli.VisibleLine(filepath.Base(r.Model)), r.Machine.OS, r.Machine.Arch, r.Machine.Kernels, r.KV)
	for _, at := range r.Limits.ByThreads {
		fmt.Fprintf(w, "limits, threads %d: memory read %s, int8 %.0f Gop/s (%s)",
			at.Threads, readText(&r.Limits, at.ReadGBs), at.Int8Gops, r.Limits.Instruction)
		if at.Matrix > 0 {
			fmt.Fprintf(w, ", matrix unit %.0f Gop/s (%s)", at.Matrix, r.Limits.MatrixInstruction)
		}
		fmt.Fprintln(w)
	}
	if r.RAM > 0 {
		fmt.Fprintf(w, "memory budget %s\n", cli.FormatBytes(r.RAM))
	}
	showTests(r, w)
	if r.Sustained != nil {
		fmt.Fprintf(w, "\n%v\n", r.Sustained)
	}
	fmt.Fprintf(w, "\nloaded in %.2f s", r.LoadSeconds)
	if r.PeakRSS > 0 {
		fmt.Fprintf(w, ", peak memory %s", cli.FormatBytes(r.PeakRSS))
	}
	fmt.Fprintln(w)
}

// readText describes the measured bandwidth.
func readText(l *bench.Limits, gbs float64) string {
	switch {
	case gbs == 0:
		return "not measured in this memory budget"
	case l.MayBeCached():
		return fmt.Sprintf("%.1f GB/s (of %s, which caches may hold)", gbs, cli.FormatBytes(int64(l.SweepBytes)))
	}
	return fmt.Sprintf("%.1f GB/s", gbs)
}

// showTests prints the table of tests.
func showTests(r *bench.Report, w io.Writer) {
	if len(r.Tests) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%-8s %7s %7s %9s  %-17s %11s %9s", "test", "threads", "depth", "tok/s", "lowest–highest", "per token", "of limit")
	if r.RAM > 0 {
		fmt.Fprintf(w, " %13s", "from flash")
	}
	fmt.Fprintln(w)
	for _, t := range r.Tests {
		cost := fmt.Sprintf("%.1f MB", float64(t.BytesPerToken)/1e6)
		if t.OpsPerToken > 0 {
			cost = fmt.Sprintf("%.2f Gop", float64(t.OpsPerToken)/1e9)
		}
		spread := fmt.Sprintf("%.1f–%.1f", t.TokPerSec.Min, t.TokPerSec.Max)
		fmt.Fprintf(w, "%-8s %7d %7d %9.1f  %-17s %11s %7.0f %%",
			t.Name, t.Threads, t.Depth, t.TokPerSec.Median, spread, cost, 100*t.OfLimit)
		if r.RAM > 0 {
			fmt.Fprintf(w, " %10.1f MB", float64(t.FlashPerToken)/1e6)
		}
		fmt.Fprintln(w)
	}
}

// openWithBudget returns the function that opens a model for bench with a memory budget, as run does.
// Weights are streamed from a pack, so the function imports other models first.
func openWithBudget(t modelflag.Target, kv string, ram int64, cache cacheFlags) func(context.Context, int, int) (*bench.Opened, error) {
	return func(ctx context.Context, threads, longest int) (*bench.Opened, error) {
		progress := func(p llmrun.Progress) { t.Loading(p.Done, p.Total) }
		o := llmrun.Options{
			FS: t.FS, Threads: threads, Context: longest, Progress: progress,
			Memory: llmrun.MemoryOptions{RAM: ram, KV: kv},
			Cache:  llmrun.CacheOptions{ImportProgress: progress},
			Notify: t.Notify,
		}
		cache.apply(&o)
		engine, err := llmrun.OpenContext(ctx, t.Path, o)
		if err != nil {
			return nil, err
		}
		return &bench.Opened{
			Model: enginemodel.Of(engine), KV: engine.Info().KV, RAM: engine.Memory().Budget, Close: engine.Close,
		}, nil
	}
}

// batchWord is the argument of llmrun bench that measures several sequences.
const batchWord = "batch"

// batchMeasurement is the measurement of llmrun bench batch, with the flags of bench.
func batchMeasurement(model *modelflag.Source, ram *ramFlag, o *bench.Options) modelflag.Measurement[[]bench.BatchTest] {
	return modelflag.Measurement[[]bench.BatchTest]{
		Model:  model,
		Amount: modelflag.FormatRuns,
		Check: func() error {
			if o.Prefill = nil; o.Sustain > 0 {
				return cli.Usagef("--minutes: bench batch has no such test")
			}
			if err := modelflag.CheckLengths(&o.Prefill, &o.Decode); err != nil {
				return cli.Usagef("--tg is 0: bench batch generates tokens")
			}
			return checkChunk(ram, o)
		},
		Run: func(ctx context.Context, t modelflag.Target) ([]bench.BatchTest, error) {
			// The sequences are as long as the context together, and each has pages that must be in memory.
			setTarget(o, t, ram, cacheFlags{noKV: true, writes: llmrun.NoWrites})
			tests, err := bench.RunBatch(ctx, *o)
			if errors.Is(err, bench.ErrBench) {
				return nil, cli.Usagef("--tg, --depth: %v", err)
			}
			return tests, err
		},
		Write: showBatch,
	}
}

// showBatch prints a table for a person.
func showBatch(tests []bench.BatchTest, w io.Writer) {
	one := &tests[0]
	fmt.Fprintf(w, "memory read %.1f GB/s, int8 %.0f Gop/s\n\n%-9s %9s %9s %9s %9s\n", one.ReadGBs, one.PeakGops, "sequences", "tok/s", "each", "of one", "of bound")
	for _, t := range tests {
		fmt.Fprintf(w, "%9d %9.1f %9.1f %8.2fx %7.0f %%\n", t.N, t.TokPerSec, t.TokPerSec/float64(t.N), t.TokPerSec/one.TokPerSec, 100*t.TokPerSec/t.Bound)
	}
}
