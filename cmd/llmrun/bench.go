package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/llmrun/llmrun/cmd/llmrun/bundled"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/modelflag"
)

func benchCommand() *cli.Command {
	return &cli.Command{
		Name:     "bench",
		Synopsis: "[-m MODEL | --shape NAME] [--pp LIST] [--tg LIST] [flags]",
		Summary:  "time a model and compare it with the limits of the machine",
		About: `Times prefill (pp) and decoding (tg). The tests take turns, several times each, so that other load on the machine slows all of them. Before and after the tests, bench measures the memory bandwidth of the machine and the peak of 8-bit integer operations in vector registers: the first limits decoding, the second prefill. A processor with a matrix unit has a second peak, which is printed too. "of limit" is the median as a percentage of its limit.

--shape writes a model of random weights first (see llmrun synth), and removes it afterwards.

--ram gives the model a memory budget, as in llmrun run: it imports the model first if it is not a pack, and reports the bytes of weights that each token reads from flash. The budget does not include the memory for measuring the machine.

--json prints {"limits":{"read_gb_s":…,"int8_gop_s":…},"tests":[{"name":"pp512","threads":2,"depth":0,"tok_per_s":{"median":…,"min":…,"max":…},"of_limit":…}],"peak_rss_bytes":…} and more. peak_rss_bytes is the peak while the model runs, without the memory for measuring the limits; it is 0 on systems that do not report it.`,
		Examples: []cli.Example{
			{Line: "llmrun bench --pp 64 --tg 16 -r 1", Purpose: "the bundled model, quickly"},
			{Line: "llmrun bench -m model.gguf --threads 1,2 --json", Purpose: "a model with one thread and with two, for a script"},
			{Line: "llmrun bench --shape llama-3.2-1b --depth 0,4096", Purpose: "a shape, with an empty context and after 4096 tokens"},
			{Line: "llmrun bench -m model.gguf --ram 500MiB", Purpose: "with a memory budget"},
			{Line: "llmrun bench --shape qwen2.5-1.5b --quant q4_k_m --keep", Purpose: "keep the generated model"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			model := modelflag.Source{Bundled: bundled.Name, BundledFS: bundled.FS}
			o := bench.Options{Prefill: []int{512}, Decode: []int{64}, Depths: []int{0}, Threads: []int{0}, Repeats: 5}
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
			f.Count(&o.Chunk, "chunk", "N", "tokens in a prefill chunk; default: 512", 1, 1<<16)
			return modelflag.Measurement[*bench.Report]{
				Model:  &model,
				Amount: modelflag.FormatRuns,
				Check: func() error {
					if ram.bytes != 0 && o.Chunk != 0 {
						return cli.Usagef("--chunk and --ram exclude each other: the plan of the budget chooses the chunk")
					}
					return modelflag.CheckLengths(&o.Prefill, &o.Decode)
				},
				Run: func(ctx context.Context, t modelflag.Target) (*bench.Report, error) {
					o.Path, o.FS, o.Loading, o.Running = t.Path, t.FS, t.Loading, t.Running
					if ram.bytes != 0 {
						o.Open = openWithBudget(t, o.KV, ram.bytes)
					}
					report, err := bench.Run(ctx, o)
					if errors.Is(err, bench.ErrBench) {
						return nil, cli.Usagef("--pp, --tg, --depth: %v", err)
					}
					return report, err
				},
				Write: showReport,
			}.Action(f)
		},
	}
}

// showReport prints a table for a person.
func showReport(r *bench.Report, w io.Writer) {
	fmt.Fprintf(w, "%s on %s/%s, %s kernels, KV in %s\n", filepath.Base(r.Model), r.Machine.OS, r.Machine.Arch, r.Machine.Kernels, r.KV)
	for _, at := range r.Limits.ByThreads {
		fmt.Fprintf(w, "limits, threads %d: memory read %.1f GB/s, int8 %.0f Gop/s (%s)",
			at.Threads, at.ReadGBs, at.Int8Gops, r.Limits.Instruction)
		if at.Matrix > 0 {
			fmt.Fprintf(w, ", matrix unit %.0f Gop/s (%s)", at.Matrix, r.Limits.MatrixInstruction)
		}
		fmt.Fprintln(w)
	}
	if r.RAM > 0 {
		fmt.Fprintf(w, "memory budget %s\n", cli.FormatBytes(r.RAM))
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
	fmt.Fprintf(w, "\nloaded in %.2f s", r.LoadSeconds)
	if r.PeakRSS > 0 {
		fmt.Fprintf(w, ", peak memory %s", cli.FormatBytes(r.PeakRSS))
	}
	fmt.Fprintln(w)
}
