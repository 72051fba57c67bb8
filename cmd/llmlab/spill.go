package main

import (
	"context"
	"fmt"
	"math"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/modelflag"
	"github.com/llmrun/llmrun/lab/measure"
)

func spillCommand() *cli.Command {
	return &cli.Command{
		Name:     "spill",
		Synopsis: "{-m MODEL | --shape NAME} [--kv-ram SIZE] [--disk SPEED] [flags]",
		Summary:  "time the tokens at which keys and values leave memory",
		About: `Decodes a text whose keys and values exceed their memory, and times each token. Pages are written to flash in two ways that take turns: when a token needs their memory, and behind the computation, as run does. The table compares the slowest tokens with the median.

The context before the measured tokens is random data and not prefilled. All weights stay in memory.`,
		Examples: []cli.Example{
			{Line: "llmlab spill -m model.gguf --disk 1GB/s", Purpose: "at the flash speed of a phone"},
			{Line: "llmlab spill --shape llama-3.2-1b --kv-ram 8MiB", Purpose: "a shape, with many small spills"},
			{Line: "llmlab spill -m model.gguf --tg 4096 --json", Purpose: "more tokens, for a script"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			model, cache := modelflag.Source{}, ""
			o := measure.SpillOptions{Context: 512, Decode: 1024, Repeats: 2, KVRAM: 16 << 20}
			model.Add(f, modelUsage)
			modelflag.AddKV(f, &o.KV)
			f.Group("Configurations")
			f.Count(&o.Context, "ctx", "N", "tokens of context before the measured ones; default: 512", 1, math.MaxInt32)
			f.Value("kv-ram", "SIZE", "memory for keys and values; default: 16MiB", func(text string) (err error) {
				if o.KVRAM, err = llmrun.ParseMemory(text); err != nil || o.KVRAM < 1 {
					return fmt.Errorf("must be a size such as 64MiB, not %q", text)
				}
				return nil
			})
			f.Count(&o.Decode, "tg", "N", "tokens to measure; default: 1024", 1, 1<<20)
			f.Count(&o.Repeats, "r repeats", "N", "texts for each way; default: 2", 1, 1000)
			f.Count(&o.Threads, "threads", "N", "number of threads; default: one for each fast core", 1, 1024)
			addDisk(f, &o.Disk)
			f.Text(&cache, "cache-dir", "DIR", "directory of keys and values on flash; default: llmrun in the user's cache directory")
			return modelflag.Measurement[*measure.SpillReport]{
				Model:  &model,
				Amount: modelflag.FormatRuns,
				Check:  func() error { return nil },
				Run: func(ctx context.Context, t modelflag.Target) (_ *measure.SpillReport, err error) {
					if o.Dir, err = cacheDir(cache); err != nil {
						return nil, err
					}
					o.Path, o.Running = t.Path, t.Running
					return measure.Spills(ctx, o)
				},
				Write: (*measure.SpillReport).WriteTable,
			}.Action(f)
		},
	}
}
