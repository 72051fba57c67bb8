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
		Summary:  "time a token behind contexts on flash, against what was predicted",
		About: `Decodes behind contexts of several lengths, in turns: with all keys and values in memory; with older ones on flash that each layer asks for when it needs them; and with those asked for while other work is done, as run does. The speed of flash is measured before and after each context, with the same reads. From it and the times in memory follow where flash no longer keeps up and what each token of context costs from there on, which is printed beside what was measured. The contexts are made up, not read, so that long ones cost nothing.

--ram limits weights, keys and values together, so that both are on flash: then a token is compared with the time that the bytes of both take. That needs a pack.

Prints a table in Markdown; --svg draws it as well. Models whose layers see a part of the context only are refused.`,
		Examples: []cli.Example{
			{Line: "llmlab kv -m model.gguf --svg kv.svg > kv.md", Purpose: "a table and a picture of this disk"},
			{Line: "llmlab kv --shape llama-3.2-1b --disk 1GB/s", Purpose: "a shape, with the flash of a phone"},
			{Line: "llmlab kv -m model.pack --ram 50% --ctx 4096,16384", Purpose: "weights on flash as well"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			b := &kvFlags{}
			b.o.Contexts, b.o.Decode, b.o.Repeats = []int{1024, 2048, 3072, 4096, 5120, 6144, 8192, 16384, 32768}, 4, 3
			b.model.Add(f, modelUsage)
			modelflag.AddKV(f, &b.o.KV)
			f.Group("Configurations")
			f.Counts(&b.o.Contexts, "ctx", "tokens of context, cut to what the model has room for; without it, 1024 to 32768", 1, math.MaxInt32)
			f.Value("kv-ram", "SIZE", "memory for keys and values: a size, or a percentage of the memory that is available on this machine (not of the model, as --ram here); without it, what 2048 tokens take, or what --ram leaves", func(text string) (err error) {
				if b.o.KVRAM, err = llmrun.ParseMemory(text); err != nil || b.o.KVRAM < 1 {
					return fmt.Errorf("must be a size such as 64MiB, not %q", text)
				}
				return nil
			})
			f.Text(&b.o.RAM, "ram", "SIZE", "memory for weights, keys and values: a size, or a percentage of the bytes of the model's tensors (not of the memory that is available, as --ram of run and plan); without it, all weights stay in memory")
			f.Count(&b.o.Decode, "tg", "N", "tokens of a measurement; without it, 4", 1, 1<<16)
			f.Count(&b.o.Repeats, "r repeats", "N", "measurements of each kind; without it, 3", 1, 1000)
			f.Count(&b.o.Threads, "threads", "N", "threads to compute with; without it, one for each fast core", 1, 1024)
			addDisk(f, &b.o.Disk)
			f.Text(&b.cache, "cache-dir", "DIR", "where keys and values go; without it, llmrun in the user's cache directory")
			f.Group("Output")
			f.Toggle(&b.json, "json", "print one JSON object instead of the table")
			f.Text(&b.svg, "svg", "FILE", "draw the times as well")
			return b.run
		},
	}
}

// kvFlags are the flags of kv.
type kvFlags struct {
	model modelflag.Source
	cache string // directory
	json  bool
	svg   string
	o     measure.KVOptions
}

func (b *kvFlags) run(ctx context.Context, s *cli.Streams, args []string) (err error) {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	if err := b.check(); err != nil {
		return err
	}
	if b.o.Dir, err = cacheDir(b.cache); err != nil {
		return err
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	path, _, remove, err := b.model.Find(ctx, s)
	if err != nil {
		return err
	}
	defer remove()
	b.o.Path = path
	report, err := cli.Measure(ctx, s, formatContexts, &b.o.Running, func(ctx context.Context) (*measure.KVReport, error) {
		return measure.KVCurves(ctx, b.o)
	})
	if err != nil {
		return err
	}
	return cli.Present(s, b.json, report, report.WriteTable, cli.Drawing{File: b.svg, Write: report.WritePlot})
}

// check refuses flags that contradict each other.
func (b *kvFlags) check() error {
	if b.model.Shape != "" && b.o.RAM != "" {
		return cli.Usagef("--ram needs a pack: write the shape with synth and import it")
	}
	return b.model.Check()
}

// formatContexts is the amount of a meter that counts contexts.
func formatContexts(n int64) string { return fmt.Sprintf("%d contexts", n) }
