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

func kvCommand() *cli.Command {
	return &cli.Command{
		Name:     "kv",
		Synopsis: "{-m MODEL | --shape NAME} [--ctx LIST] [--kv-ram SIZE] [--disk SPEED] [flags]",
		Summary:  "time decoding after contexts on flash, and check the predictions",
		About: `Decodes after contexts of several lengths, in three modes that take turns: all keys and values in memory; older ones on flash, read when a layer needs them; and older ones on flash, prefetched during other work, as run does. The speed of flash is measured before and after each context, with the same reads. From it and the times in memory, kv predicts the context from which flash is the bottleneck and the cost per token of context beyond it, and compares both with the measurements. The contexts are random data and not prefilled, so that long ones take no time.

--ram limits weights, keys and values together, so that both are partly on flash. Then kv compares the time per token with the time for reading the bytes of both. That needs a pack.

Prints a table in Markdown; --svg also draws it. Models with sliding-window layers are refused.`,
		Examples: []cli.Example{
			{Line: "llmlab kv -m model.gguf --svg kv.svg > kv.md", Purpose: "a table and a picture for this disk"},
			{Line: "llmlab kv --shape llama-3.2-1b --disk 1GB/s", Purpose: "a shape, at the flash speed of a phone"},
			{Line: "llmlab kv -m model.pack --ram 50% --ctx 4096,16384", Purpose: "weights on flash too"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			model, cache, svg := modelflag.Source{}, "", ""
			o := measure.KVOptions{Contexts: []int{1024, 2048, 3072, 4096, 5120, 6144, 8192, 16384, 32768}, Decode: 4, Repeats: 3}
			model.Add(f, modelUsage)
			modelflag.AddKV(f, &o.KV)
			f.Group("Configurations")
			f.Counts(&o.Contexts, "ctx", "tokens of context, at most those of the model; default: 1024 to 32768", 1, math.MaxInt32)
			f.Value("kv-ram", "SIZE", "memory for keys and values: a size, or a percentage of the available memory (not of the model, as --ram here); default: enough for 2048 tokens, or as planned under --ram", func(text string) (err error) {
				if o.KVRAM, err = llmrun.ParseMemory(text); err != nil || o.KVRAM < 1 {
					return fmt.Errorf("must be a size such as 64MiB, not %q", text)
				}
				return nil
			})
			f.Text(&o.RAM, "ram", "SIZE", "memory for weights, keys and values: a size, or a percentage of the bytes of the model's tensors (not of the available memory, as --ram of run and plan); default: all weights stay in memory")
			f.Count(&o.Decode, "tg", "N", "tokens per measurement; default: 4", 1, 1<<16)
			f.Count(&o.Repeats, "r repeats", "N", "measurements per mode; default: 3", 1, 1000)
			f.Count(&o.Threads, "threads", "N", "number of threads; default: one for each fast core", 1, 1024)
			addDisk(f, &o.Disk)
			addFlash(f, &o.Flash)
			f.Text(&cache, "cache-dir", "DIR", "directory of keys and values on flash; default: llmrun in the user's cache directory")
			action := modelflag.Measurement[*measure.KVReport]{
				Model:  &model,
				Amount: formatContexts,
				Check: func() error {
					if model.Shape != "" && o.RAM != "" {
						return cli.Usagef("--ram needs a pack: write the shape with llmrun synth and import it")
					}
					return nil
				},
				Run: func(ctx context.Context, t modelflag.Target) (_ *measure.KVReport, err error) {
					if o.Dir, err = cacheDir(cache); err != nil {
						return nil, err
					}
					o.Path, o.Running = t.Path, t.Running
					return measure.KVCurves(ctx, o)
				},
				Write: (*measure.KVReport).WriteTable,
				Draw: func(r *measure.KVReport) []cli.Drawing {
					return []cli.Drawing{{File: svg, Write: r.WritePlot}}
				},
			}.Action(f)
			f.Text(&svg, "svg", "FILE", "draw the times into this file")
			return action
		},
	}
}

// formatContexts formats the amount of a meter that counts contexts.
func formatContexts(n int64) string { return fmt.Sprintf("%d contexts", n) }
