package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/modelflag"
	"github.com/llmrun/llmrun/lab/measure"
)

func splitCommand() *cli.Command {
	return &cli.Command{
		Name:     "split",
		Synopsis: "[-m MODEL | --shape NAME] [--with DEVICE] [--pp LIST] [--tg N] [flags]",
		Summary:  "time a model split between the CPU and a device, and on each alone",
		About: `Times prefill (pp) and decoding (tg) in three ways, in turns: on the CPU, on the device, and split between the two as in llmrun run --device cpu+DEVICE. A GPU alone computes the whole pass if it can, as with --device gpu; another device computes all matmuls, and the CPU the other operations.

Then it lists, for each kind of matrix, the fraction of the rows that the device computes, and the time of the steps of a pass that begin with that matrix: predicted, measured, and the part of it that the CPU waited for the device. Queries, keys and values are one step, and so are gate and up.

The split is the one that opening such a model chooses: if the first trial shows that passes gain nothing, the CPU computes all rows, and a note reports that.

The model is in memory three times. Prints tables in Markdown.`,
		Examples: []cli.Example{
			{Line: "llmlab split --pp 64 --tg 16 -r 3", Purpose: "the bundled model, with the second half of the cores as the device, quickly"},
			{Line: "llmlab split --shape qwen2.5-1.5b --with gpu", Purpose: "a shape of random weights, with the first GPU; needs a program built with -tags gpu"},
			{Line: "llmlab split -m model.gguf --with npu --json", Purpose: "with an NPU, for a script; needs a program built with -tags npu"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			model, cache := bundledModel(), ""
			o := measure.SplitOptions{Prefill: []int{512}, Decode: 32, Repeats: 7, Chunk: splitChunk}
			model.Add(f, modelUsage)
			f.Group("Devices")
			f.Text(&o.Device, "with", "DEVICE", "gpu, npu, or a name in llmrun devices; default: cpu-b, a half of the cores")
			f.Percent(&o.Quota, "device-share", "the part of a matmul's time that the device may be busy; default: 100%")
			f.Count(&o.Threads, "threads", "N", "threads of the CPU; default: one for each fast core", 1, 1024)
			f.Text(&cache, "cache-dir", "DIR", "directory of saved measurements; default: llmrun in the user's cache directory")
			f.Group("Tests")
			f.Counts(&o.Prefill, "pp", "prompt lengths, separated by commas; 0 for none; default: 512", 0, math.MaxInt32)
			f.Count(&o.Decode, "tg", "N", "tokens to generate; 0 for none; default: 32", 0, 1<<16)
			f.Count(&o.Repeats, "r repeats", "N", "runs of each test; default: 7", 1, 1000)
			f.Count(&o.Chunk, "chunk", "N", "tokens in a prefill chunk; default: 512", 1, 1<<16)
			return modelflag.Measurement[*measure.SplitReport]{
				Model:  &model,
				Amount: formatTests,
				Check:  func() error { return modelflag.CheckLengths(&o.Prefill, &[]int{o.Decode}) },
				Run: func(ctx context.Context, t modelflag.Target) (*measure.SplitReport, error) {
					if o.Device == "" {
						o.Device = defaultSplitDevice
					}
					if dir, err := cacheDir(cache); err == nil {
						o.Dir = dir
					}
					o.Path, o.FS, o.Loading, o.Running, o.Notify = t.Path, t.FS, t.Loading, t.Running, t.Notify
					report, err := measure.CompareSplit(ctx, o)
					if errors.Is(err, measure.ErrUnknownDevice) {
						return nil, cli.Usagef("--with: %v", err)
					}
					return report, err
				},
				Write: (*measure.SplitReport).WriteTables,
			}.Action(f)
		},
	}
}

// formatTests formats the amount of a meter that counts tests.
func formatTests(n int64) string { return fmt.Sprintf("%d tests", n) }

const (
	// Defaults of --chunk and --with.
	splitChunk         = 512
	defaultSplitDevice = "cpu-b"
)
